"""What .gitignore files leave out."""

import pytest

from hedgerow.flags.code_references.source_files import is_ignored, parse_rules

RULES = """
# build
dist/
*.gen.ts
/only-here.js
packages/*/lib
!keep.gen.ts
**/cache
deep/**/x.js
"""


@pytest.mark.parametrize(
    ("path", "is_folder", "expected"),
    [
        ("dist", True, True),
        ("src/dist", True, True),
        ("dist", False, False),
        ("src/a.gen.ts", False, True),
        ("src/keep.gen.ts", False, False),
        ("only-here.js", False, True),
        ("src/only-here.js", False, False),
        ("packages/a/lib", True, True),
        ("packages/a/b/lib", True, False),
        ("a/b/cache", True, True),
        ("deep/a/b/x.js", False, True),
        ("src/a.ts", False, False),
    ],
)
def test_rules_are_those_of_git(path: str, is_folder: bool, expected: bool) -> None:
    assert is_ignored(parse_rules(RULES, ""), path, is_folder=is_folder) is expected


def test_rules_of_a_folder_apply_below_it() -> None:
    rules = parse_rules("/a.js\nb.js", "web/")
    assert is_ignored(rules, "web/a.js", is_folder=False)
    assert is_ignored(rules, "web/src/b.js", is_folder=False)
    assert not is_ignored(rules, "a.js", is_folder=False)
    assert not is_ignored(rules, "b.js", is_folder=False)
