"""The web page of a grid: a process of its own, and a client of the daemon (`koala web`).

- `identities`, `grid_model`: who looks, and what the daemon shows them, fed by one watch for all
  pages;
- `pages`: the handlers; `templates`, `static`: what browsers get;
- `cells`, `barrier`, `usage`, `charts`: documents of the daemon as what the pages show;
- `security`, `sessions`: who is let in.
"""
