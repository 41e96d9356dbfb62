"""The generated pages say what the code says."""

from tools.docs.__main__ import PAGES, stale


def test_every_generated_page_is_current():
    assert stale() == [], "run: python -m tools.docs"


def test_a_stale_page_is_noticed(monkeypatch):
    monkeypatch.setitem(PAGES, "rules.md", lambda: "something else\n")
    assert stale() == ["rules.md"]


def test_links_between_pages_lead_somewhere(root):
    import re

    pages = [*root.glob("docs/**/*.md"), root / "README.md"]
    broken = []
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(root)} -> {target}")
    assert broken == []
