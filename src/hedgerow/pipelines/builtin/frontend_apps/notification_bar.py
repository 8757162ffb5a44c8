"""Notification bar: shows a message at the top or bottom of a page, with a button."""

from hedgerow.plugin.component import Component, Family, SettingField, SettingType

SCRIPT = """\
function inject({ config, posthog }) {
  if (localStorage.getItem('hedgerow-bar') === config.message) { return }
  const bar = document.createElement('div')
  bar.setAttribute('role', 'status')
  bar.style.cssText =
    'position:' + (config.position === 'bottom' ? 'fixed;bottom:0' : 'sticky;top:0') +
    ';left:0;right:0;z-index:2147483000;display:flex;gap:1em;align-items:center;' +
    'justify-content:center;padding:.6em 1em;font:15px/1.4 system-ui,sans-serif'
  bar.style.background = config.background
  bar.style.color = config.color
  const text = document.createElement('span')
  text.textContent = config.message
  bar.append(text)
  if (config.button_text && /^https?:/.test(config.button_url)) {
    const link = document.createElement('a')
    link.textContent = config.button_text
    link.href = config.button_url
    link.style.color = 'inherit'
    link.addEventListener('click', () => {
      posthog.capture('notification bar clicked', { $message: config.message })
    })
    bar.append(link)
  }
  const close = document.createElement('button')
  close.textContent = '\\u00d7'
  close.setAttribute('aria-label', 'Close')
  close.style.cssText = 'background:none;border:0;color:inherit;font-size:1.2em;cursor:pointer'
  close.addEventListener('click', () => {
    localStorage.setItem('hedgerow-bar', config.message)
    bar.remove()
    posthog.capture('notification bar closed', { $message: config.message })
  })
  bar.append(close)
  document.body.prepend(bar)
}
"""

COMPONENT = Component(
    key="hedgerow/notification-bar",
    family=Family.FRONTEND_APP,
    name="Notification bar",
    description="Shows a message at the top or bottom of your pages, optionally with a button.",
    version="1.0.0",
    settings=(
        SettingField(key="message", name="Message", required=True, site=True),
        SettingField(key="button_text", name="Button", site=True, default=""),
        SettingField(key="button_url", name="Button URL", site=True, default=""),
        SettingField(key="background", name="Background", site=True, default="#2f6b3a"),
        SettingField(key="color", name="Text colour", site=True, default="#ffffff"),
        SettingField(
            key="position",
            name="Position",
            type=SettingType.CHOICE,
            choices=("top", "bottom"),
            default="top",
            site=True,
        ),
    ),
    script=SCRIPT,
)
