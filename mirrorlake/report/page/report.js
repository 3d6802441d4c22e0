"use strict";
(() => {
  const form = document.querySelector("form"), said = form.querySelector("output");
  const [name, state] = form.elements, tables = [...document.querySelectorAll("details.table")];
  const names = tables.map((one) => one.querySelector(".name").textContent.toLowerCase());
  const choose = () => {
    const words = name.value.trim().toLowerCase();
    let shown = 0;
    tables.forEach((one, n) => {
      const is = names[n].includes(words) && (!state.value || one.dataset.state === state.value);
      one.hidden = !is;
      shown += is;
    });
    said.textContent = shown === tables.length ? "" : `${shown} of ${tables.length}`;
  };
  const open = () => {
    const one = document.getElementById(location.hash.slice(1));
    if (one && one.matches("details")) one.open = true;
  };
  form.addEventListener("input", choose);
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", open);
  form.hidden = tables.length < 2;
  open();
})();
