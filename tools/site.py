"""Pages of the site that stand elsewhere: the README, its tour, the examples, the root's others.

A hook of mkdocs (mkdocs.yml); their links are those of the root, and are turned to the pages.
"""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
}
TOUR = "A tour of five minutes"


def page(name: str) -> str:
    """A file of the root as a page."""
    text = (ROOT / name).read_text("utf-8")
    for file, target in PAGES.items():
        text = text.replace(f"]({file})", f"]({target})")
    return text.replace("](docs/examples)", "](examples.md)").replace("](docs/", "](")


def tour() -> str:
    """The README's tour, as a page."""
    part = page("README.md").split(f"\n## {TOUR}\n", 1)[1].split("\n## ", 1)[0]
    return f"# {TOUR}\n{part}"


def examples() -> str:
    """The scripts of docs/examples, one after another."""
    codes = [path.read_text("utf-8") for path in sorted((ROOT / "docs/examples").glob("*.py"))]
    parts = [f"## {code[3:].partition(':')[0]}\n\n```python\n{code}```\n" for code in codes]
    return "\n".join(["# Examples\n", *parts])


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds them."""
    contents = {target: page(name) for name, target in PAGES.items()}
    contents |= {"tour.md": tour(), "examples.md": examples()}
    for target, content in contents.items():
        files.append(File.generated(config, target, content=content))
    return files
