// What is wrong with a page, as a list of texts: run inside of it by test_page_browser.c.
(() => {
  const wrong = [];
  const all = (what) => [...document.querySelectorAll(what)];
  const name = (e) => `${e.tagName.toLowerCase()}${e.id ? '#' + e.id : ''} '${(e.textContent || '').trim().slice(0, 30)}'`;
  const seen = (e) => e.checkVisibility ? e.checkVisibility() : true;

  // structure
  const ids = new Set();
  for (const e of all('[id]')) {
    if (ids.has(e.id)) wrong.push(`two elements have the id ${e.id}`);
    ids.add(e.id);
  }
  if (!document.documentElement.lang) wrong.push('no language');
  if (!document.title) wrong.push('no title');
  for (const what of ['h1', 'main', 'header', 'footer'])
    if (document.querySelectorAll(what).length !== 1) wrong.push(`not one ${what}`);
  let level = 0;
  for (const h of all('h1,h2,h3,h4,h5,h6')) {
    const now = Number(h.tagName[1]);
    if (now > level + 1) wrong.push(`${name(h)} comes after level ${level}`);
    if (!h.textContent.trim()) wrong.push('an empty heading');
    level = now;
  }
  for (const e of all('[aria-labelledby]'))
    if (!document.getElementById(e.getAttribute('aria-labelledby'))) wrong.push(`${name(e)} is labelled by nothing`);
  for (const e of all('nav,section,[role=region],[role=group]'))
    if (!e.getAttribute('aria-label') && !e.getAttribute('aria-labelledby')) wrong.push(`${name(e)} has no name`);
  for (const a of all('a')) {
    if (!a.textContent.trim()) wrong.push('a link without text');
    const to = a.getAttribute('href');
    if (to.startsWith('#') ? !document.getElementById(to.slice(1)) : !to.startsWith('data:text/csv')) wrong.push(`a link leads to ${to.slice(0, 40)}`);
  }
  for (const e of all('svg'))
    if (!e.closest('[aria-hidden=true]') && !(e.getAttribute('role') === 'img' && e.getAttribute('aria-label')))
      wrong.push(`a drawing without a text: ${name(e)}`);
  for (const e of all('[role=img]'))
    if ((e.getAttribute('aria-label') || '').length < 20) wrong.push('a drawing with too short a text');
  for (const t of all('table'))
    if (!t.caption || !t.caption.textContent.trim()) wrong.push('a table without caption');
  for (const t of all('th'))
    if (!t.scope) wrong.push(`a heading of a table without scope: ${name(t)}`);
  for (const e of all('[tabindex]'))
    if (e.tabIndex > 0) wrong.push('a tabindex above 0');

  // layout
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) {
    const wide = all('body *').filter((e) => e.getBoundingClientRect().right > width + 1 && !e.closest('.wide,pre,svg'))[0];
    wrong.push(`wider than the window by ${document.documentElement.scrollWidth - width}: ${wide ? name(wide) : ''}`);
  }
  for (const e of all('.wide,pre'))
    if (seen(e) && e.scrollWidth > e.clientWidth + 1 && e.tabIndex !== 0) wrong.push(`scrolls, and no key reaches it: ${name(e)}`);

  for (const e of all('data[data-form^=d],data[data-form=x],.whole,dd .unit'))
    if (seen(e) && e.getClientRects().length > 1) wrong.push(`a figure or a unit breaks: ${name(e)}`);

  // A word of up to 16 letters stays in one line: a column that is too narrow breaks it.
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; (n = walker.nextNode());) {
    if (!seen(n.parentElement) || n.parentElement.closest('pre,code,style,svg,title,.hidden')) continue;
    for (const m of n.textContent.matchAll(/[A-Za-z]{2,16}/g)) {
      const r = document.createRange();
      r.setStart(n, m.index);
      r.setEnd(n, m.index + m[0].length);
      const tops = new Set([...r.getClientRects()].map((q) => Math.round(q.top)));
      const around = n.textContent.slice(m.index).split(/\s/)[0].length + (n.textContent.slice(0, m.index).match(/\S*$/)[0]).length;
      if (tops.size > 1 && around <= 16) wrong.push(`the word ${m[0]} breaks in ${name(n.parentElement)}`);
    }
  }
  // What a reader looks for first is in the window without scrolling a table.
  for (const e of all('.cards data,.system dd,.overview td.r'))
    if (seen(e) && e.getBoundingClientRect().right > width + 1) wrong.push(`pushed off: ${name(e)}`);
  const verdict = document.querySelector(".verdict.bad") ? null : document.querySelector(".verdict"), headline = document.querySelector('.cards,.overview');
  if (verdict && headline && headline.getBoundingClientRect().top > verdict.getBoundingClientRect().top) wrong.push('the verdict comes before the figures');
  for (const e of all('.verdict h2'))
    if (width >= 1000 && e.textContent.length < 140 && e.getBoundingClientRect().height > 30 && !e.closest('[open]')) wrong.push(`a verdict of more than a line: ${name(e)}`);

  // colours
  const parse = (text) => {
    const m = text.match(/[\d.]+/g);
    return m ? { r: +m[0], g: +m[1], b: +m[2], a: m.length > 3 ? +m[3] : 1 } : null;
  };
  const over = (top, under) => ({
    r: top.r * top.a + under.r * (1 - top.a), g: top.g * top.a + under.g * (1 - top.a), b: top.b * top.a + under.b * (1 - top.a), a: 1,
  });
  const ground = (e) => {
    const layers = [];
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c && c.a > 0) layers.push(c);
      if (c && c.a === 1) break;
    }
    return layers.reverse().reduce((under, top) => over(top, under), { r: 255, g: 255, b: 255, a: 1 });
  };
  const light = (c) => {
    const [r, g, b] = [c.r, c.g, c.b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  for (const e of all('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !seen(e) || e.closest('.skip')) continue;
    const style = getComputedStyle(e);
    const drawn = e instanceof SVGElement;
    const colour = parse(drawn ? style.fill : style.color);
    const size = parseFloat(style.fontSize);
    const shown = drawn ? e.getBoundingClientRect().height : size;
    const under = e.closest('svg') && e.classList.contains('said') && e.closest('.topology') ? parse(getComputedStyle(document.querySelector('.switch')).fill) : ground(e);
    const ratio = contrast(over(colour, under), under);
    const need = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if (ratio < need) wrong.push(`contrast ${ratio.toFixed(2)} of ${name(e)}`);
    if (shown < 9) wrong.push(`text ${shown.toFixed(1)} pixels high: ${name(e)}`);
  }
  for (const e of all('.line,.dots')) {
    const ratio = contrast(parse(getComputedStyle(e).stroke), ground(e));
    if (ratio < 3) wrong.push(`a line has contrast ${ratio.toFixed(2)}`);
  }
  return wrong;
})()
