// Names and keys for readers without a mouse, which the theme does not give.
document$.subscribe(() => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .highlight-ipynb, pre > code")) {
    box.tabIndex = 0;
  }
});
