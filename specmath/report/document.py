"""The page around a report: its style on screen and on A4, plotly.js once, nothing from elsewhere.

What a browser may load is said in the page itself (Content-Security-Policy): nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from html import escape

from plotly.offline import get_plotlyjs

import specmath
from specmath.checks import plain_text

__all__ = ["LONGEST_TITLE", "PRINTED", "document", "stamp"]

LONGEST_TITLE = 120
"""Characters of a title."""

PRINTED = (182, 269)
"""Millimetres of a sheet of A4 within its margins: across, and down."""

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)

STYLE = """
:root { color-scheme: light }
* { box-sizing: border-box }
body { font: 15px/1.45 system-ui, "Noto Sans", "DejaVu Sans", sans-serif; max-width: 64rem;
  margin: 1.5rem auto; padding: 0 1rem; color: #111827; background: #fff; overflow-wrap: anywhere }
h1 { font-size: 1.5rem; margin: 0 0 .2rem }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; padding-top: .5rem; border-top: 2px solid #111827 }
h3 { font-size: 1rem; margin: 1.3rem 0 .3rem }
p { margin: .35rem 0; max-width: 50rem } ul { margin: .3rem 0; padding-left: 1.1rem }
li { margin: .2rem 0; max-width: 50rem }
.stamp, .small, figcaption, caption { color: #4b5563; font-size: .85rem }
.decision { font-size: 1.1rem; font-weight: 600; max-width: none }
.headline { font-weight: 600; padding-left: .6rem; border-left: .35rem solid #6b7280 }
.good { border-color: #15803d } .bad { border-color: #b91c1c } .unknown { border-color: #b45309 }
.wide { overflow-x: auto } .inputs td { padding-top: .1rem; padding-bottom: .1rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .85rem;
  margin: .5rem 0 }
th, td { padding: .25rem .4rem; text-align: right; vertical-align: top;
  border-bottom: 1px solid #d1d5db; overflow-wrap: normal }
th { font-weight: 600; vertical-align: bottom; border-bottom: 1px solid #6b7280 }
th.group { text-align: center; border-bottom: 1px solid #d1d5db }
td small { display: block; color: #4b5563; font-size: .8em; white-space: nowrap }
.text { text-align: left; overflow-wrap: anywhere; min-width: var(--least) }
tr.total td { border-top: 1px solid #6b7280; font-weight: 600 }
tr.total td small { font-weight: 400 }
figure { margin: 1rem 0; overflow-x: auto } figcaption { max-width: 50rem }
.head { display: flex; justify-content: space-between; align-items: baseline; max-width: 680px;
  gap: 1rem }
.head h3 { margin: 0 } button { font: inherit; font-size: .8rem; cursor: pointer;
  flex: none }
details { margin: .5rem 0 } summary { cursor: pointer; color: #1d4ed8; font-size: .9rem }
pre { background: #f3f4f6; padding: .7rem; overflow-x: auto; font-size: .8rem;
  overflow-wrap: normal }
code { overflow-wrap: anywhere; font-size: .8rem }
@page { size: A4; margin: 14mm }
@media print {
  body { font-size: 9.5pt; margin: 0; padding: 0; max-width: none }
  button, details, .screen { display: none !important }
  p, li, figcaption, .decision { max-width: none }
  .decision { font-size: 11pt } h1 { font-size: 16pt } h2 { font-size: 13pt; margin-top: 0 }
  table { font-size: 7.5pt } th, td { padding: 1mm .8mm } td small { white-space: normal }
  .inputs td { padding-top: .3mm; padding-bottom: .3mm }
  .long { min-width: calc(.7 * var(--least)) } .wide, figure { overflow: visible }
  figure, tr, .headline { break-inside: avoid } h2, h3, .head { break-after: avoid }
  section.sheet { break-before: page } thead { display: table-header-group }
}
"""

SCRIPT = """
for (const figure of document.querySelectorAll("figure.chart")) {
  const told = JSON.parse(figure.querySelector("script").textContent);
  const fixed = {displayModeBar: false, displaylogo: false, responsive: false};
  Plotly.newPlot(figure.querySelector(".plot"), told.data, told.layout, fixed);
  const button = figure.querySelector("button");
  if (button) button.addEventListener("click", () => {
    // plotly takes text for markup.
    const text = button.dataset.title.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
    const title = {text, font: {size: 18}, x: 0.02, xanchor: "left", y: 0.97,
      yanchor: "top"};
    const layout = {...told.layout, title, width: 800, height: 450, paper_bgcolor: "#fff",
      margin: {...told.layout.margin, t: 90}};
    Plotly.downloadImage({data: told.data, layout, config: fixed},
      {format: "png", width: 800, height: 450, scale: 2, filename: button.dataset.file});
  });
}
"""
"""Draws each chart from what stands beside it; an image is of a slide's 1600 × 900 points, twice as
large as laid out, so that its text is read from afar."""


def stamp(date: datetime.date | None) -> str:
    """The date, today's where none is given, and the version."""
    day = datetime.date.today() if date is None else date
    return f"{day:%Y-%m-%d} · specmath {specmath.__version__}"


def document(title: str, body: Iterable[str]) -> bytes:
    """The page as UTF-8; `body` is HTML."""
    drawn = f"<script>{get_plotlyjs()}</script>\n<script>{SCRIPT}</script>\n"
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="generator" content="specmath {escape(specmath.__version__)}">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(plain_text(title))}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
    )
    # Half a character, of a name that a server sent, is no text that UTF-8 writes.
    text = "\n".join((page, *body, f"{drawn}</body>\n</html>\n"))
    return text.encode("utf-8", errors="replace")
