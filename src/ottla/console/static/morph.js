// Changes a tree into another one and keeps the elements that both have, with focus, selection and transitions.

const policy = window.trustedTypes
  ? window.trustedTypes.createPolicy("ottla", { createHTML: (text) => text })
  : { createHTML: (text) => text };

/** The nodes of HTML that our own server has rendered and escaped. */
export function html(text) {
  const template = document.createElement("template");
  template.innerHTML = policy.createHTML(text);
  return template.content;
}

/** Makes the children of `target` equal to those of `source`. */
export function morph(target, source) {
  const kept = new Map();
  for (const child of target.children) if (child.id) kept.set(child.id, child);
  let current = target.firstChild;
  for (const next of [...source.childNodes]) {
    const known = next.id ? kept.get(next.id) : null;
    if (known && known !== current) {
      target.insertBefore(known, current);
      patch(known, next);
    } else if (current && !(current.id && current.id !== next.id) && isSame(current, next)) {
      patch(current, next);
      current = current.nextSibling;
    } else {
      target.insertBefore(next, current);
    }
  }
  while (current) {
    const after = current.nextSibling;
    current.remove();
    current = after;
  }
}

function isSame(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && (one.id || "") === (other.id || "");
}

function patch(target, source) {
  if (target.nodeType !== Node.ELEMENT_NODE) {
    if (target.nodeValue !== source.nodeValue) target.nodeValue = source.nodeValue;
    return;
  }
  if (target.nodeName === "DETAILS" && target.open) source.setAttribute("open", "");
  if (target.classList.contains("is-selected")) source.classList.add("is-selected");
  for (const { name } of [...target.attributes]) if (!source.hasAttribute(name)) target.removeAttribute(name);
  for (const { name, value } of source.attributes) if (target.getAttribute(name) !== value) target.setAttribute(name, value);
  if (target !== document.activeElement || !target.matches("input, textarea, select")) morph(target, source);
}
