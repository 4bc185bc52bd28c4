"""The web page of a grid: a process of its own, and a client of the daemon (`koala web`).

- `server`: the process; `app`: its routes; `settings`: where it listens.
- `connections`: who is accepted, cut, and gives way; `shares`: limits of each user; `answers`:
  answers in parts, and mistakes in words.
- `sessions`: sign-in and sessions of browsers; `security`: checks of requests.
- `identities`: who looks; what the daemon shows them is one `client.grid_model` for all pages.
- `pages`: the handlers; `templates`, `static`: what browsers get.
- `koala.views` makes documents into what the pages show, charts among it.
- `past_runs`, `playback`: replays of past runs, and the document that plays one back.
"""
