"""Campaigns: many runs that are recorded, stored, split over machines and merged.

- `identity`: names a run by a digest of its setting, seed and length.
- `code`: digests the code that a run executes, own policies included.
- `store`: keeps finished runs, so that no run is made twice.
- `records`: writes finished runs as JSON lines and reads them.
- `execution`: executes the runs that the store does not have.
- `parts`: writes and reads folders of runs with their provenance, and merges them.
- `work`: the runs of a campaign by name: to be executed, stored, written, merged.
- `provenance`: describes the program that makes a result, and its machine.
- `on_dask`: runs on a scheduler of Dask; `koala.lab.engines` names all engines.
"""
