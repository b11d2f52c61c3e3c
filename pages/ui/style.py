"""The few rules of style that Streamlit has no setting for."""

import streamlit as st

# On a phone the answer and its numbers come before the inputs, which would fill its first screen:
# what stands between the page and the numbers is no box there. Boxes that belong together stay side
# by side; a table in a container "narrow_…" leaves out its inputs, which stand above it anyway: its
# second, third and fourth column. What is still too wide scrolls within its own box, not with the
# page. Small text has 4.5:1, Streamlit's own less on white: captions, the text of charts (its grey,
# and that of plain decoding), the chosen door and tab.
STYLE = """
[data-testid=stCaptionContainer][data-testid=stCaptionContainer] { opacity: .9; }
.js-plotly-plot text:is([style*="rgb(128, 132, 149)"], [style*="rgb(138, 145, 158)"]) {
  fill: currentcolor !important; fill-opacity: .8 !important;
}
:is([data-variant=segmented_control][aria-checked=true], [role=tab][aria-selected=true]) p {
  color: color-mix(in srgb, currentcolor 50%, CanvasText);
}
[data-testid=stMainBlockContainer] { padding: 2.5rem 2rem 4rem; }
[class*=st-key-answer] [data-testid=stAlert] p > strong:first-child { font-size: 1.2rem; }
.large { display: grid; grid-template-columns: repeat(2, 1fr); gap: .6rem 1rem; }
.st-key-choices .large { grid-template-columns: repeat(4, 1fr); }
.large.large.large, .large :is(dt, dd) { margin: 0; padding: 0; }
.large :is(dt, dd) { font-size: .875rem; font-weight: 400; }
.large dt { opacity: .9; }
.large dt + dd { font-size: 1.35rem; line-height: 1.4; }
.large dd + dd { opacity: .9; }
.st-key-head { gap: .6rem; }
.st-key-bar [data-testid=stVerticalBlock] { gap: .6rem; }
.st-key-bar summary { padding-block: .25rem; min-height: 0; }
:is([class*=st-key-narrow_], [class*=st-key-wide_]) table {
  display: block; max-width: 100%; overflow-x: auto;
}
@media (max-width: 640px) {
  .st-key-head { gap: 1.2rem; margin-bottom: .5rem; }
  [data-testid=stMainBlockContainer] { padding: 4rem 1rem; }
  [data-testid=stHeading] h2 { font-size: 1.6rem; padding: .25rem 0; }
  [data-testid=stVerticalBlock] > :has(> .st-key-head) { order: -3; }
  [data-testid=stVerticalBlock] > :has(> [class*=st-key-answer]) { order: -2; }
  [data-testid=stVerticalBlock] > .st-key-bar { order: -1; }
  :is(:has(> .st-key-first), .st-key-first, .st-key-first :has(* > .st-key-answer_card)) {
    display: contents;
  }
  :is(:has(> .st-key-live), .st-key-live, .st-key-live > *, .st-key-live > * > *) {
    display: contents;
  }
  [data-testid=stMarkdownContainer] table {
    font-size: .8rem; display: block; max-width: 100%; overflow-x: auto;
  }
  [data-testid=stMarkdownContainer] :is(th, td) { padding: .3rem; }
  [class*=st-key-narrow_] :is(th, td):is(:nth-child(2), :nth-child(3), :nth-child(4)) {
    display: none;
  }
  .large dt + dd { font-size: 1.15rem; }
  .st-key-choices .large { grid-template-columns: repeat(2, 1fr); }
  .st-key-bar [data-testid=stHorizontalBlock] { gap: .75rem; }
  .st-key-bar [data-testid=stButtonGroup] [role=radiogroup] { flex-wrap: wrap; }
  .st-key-bar [data-testid=stColumn] [data-testid=stColumn] { min-width: 0; }
  .st-key-bar :is(.st-key-load, .st-key-demand, .st-key-promise) [data-testid=stColumn] {
    min-width: calc(50% - 1rem);
  }
}
"""


def style() -> None:
    """Put the rules into the page; takes no room in it."""
    st.html(f"<style>{STYLE}</style>")
