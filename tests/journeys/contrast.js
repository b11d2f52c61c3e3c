// Texts on the page whose contrast with what is behind them is below 4.5:1 (WCAG 2.1, 1.4.3).
// Left out, as there: icons, what is disabled; and texts on a colour of their own (heat maps).
() => {
  const pen = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const linear = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const luminance = (c) =>
    0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const behind = (box) => {
    const layers = [];
    for (; box; box = box.parentElement) layers.push(rgba(getComputedStyle(box).backgroundColor));
    return layers.reduceRight((below, top) => over(top, below), [255, 255, 255]);
  };
  const exempt = "script, style, noscript, :disabled, [aria-disabled=true], .annotation, " +
    "[data-testid=stIconMaterial], [data-testid=stSlider], .heatmap-label, .gl-container";
  const faint = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), box = walker.currentNode.parentElement;
    const {width, height} = box.getBoundingClientRect(), look = getComputedStyle(box);
    if (!text || !width || !height || look.visibility === "hidden" || box.closest(exempt)) continue;
    const drawn = box.closest("svg");
    const colour = rgba(drawn ? look.fill : look.color);
    if (drawn) colour[3] *= parseFloat(look.fillOpacity);
    for (let up = box; up; up = up.parentElement) colour[3] *= getComputedStyle(up).opacity;
    const back = behind(drawn ? drawn.parentElement : box);
    const [dark, light] = [luminance(over(colour, back)), luminance(back)].sort((a, b) => a - b);
    const ratio = (light + 0.05) / (dark + 0.05);
    if (colour[3] > 0 && ratio < 4.5) faint.add(`${ratio.toFixed(2)} ${text.slice(0, 40)}`);
  }
  return [...faint];
}
