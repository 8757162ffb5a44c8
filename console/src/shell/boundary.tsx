import { Component, type ComponentChildren } from "preact";
import { t } from "../lib/text";
import { Button } from "../ui/controls";
import { Page } from "../ui/page";

interface Props {
  /** Another address shows another page, so that the error is over. */
  address: string;
  children: ComponentChildren;
}

/** Keeps the navigation when a page fails, and says what happened. */
export class Boundary extends Component<Props, { error: unknown }> {
  override state = { error: null };

  override componentDidCatch(error: unknown): void {
    this.setState({ error });
    console.error(error);
  }

  override componentDidUpdate(before: Props): void {
    if (before.address !== this.props.address && this.state.error) this.setState({ error: null });
  }

  override render() {
    if (!this.state.error) return this.props.children;
    return (
      <Page title={t("This page failed")}>
        <div class="state" role="alert">
          <p>{t("It could not be shown. What you entered in an editor is kept.")}</p>
          <p class="small mono">{String(this.state.error)}</p>
          <div class="row">
            <Button kind="primary" onClick={() => location.reload()}>
              {t("Reload the page")}
            </Button>
          </div>
        </div>
      </Page>
    );
  }
}
