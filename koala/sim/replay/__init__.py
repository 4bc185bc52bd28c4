"""A journal told again: the story of a run, and what would have happened otherwise.

`chronicle` notes what became of claims, copies and sites, in a run or in a simulation; `recording`
takes from it what a simulation needs of the world (submissions, other users' load, answers of
sites, run times); `world` and `site` let a fresh scheduler meet that world again; `figures` puts
the runs side by side; `story` has the words. Nothing here opens a file: steps come from a reader.
"""
