"""Placeholders: the batch job of a claim, and its folder. (`starter_link`: its starter.)

submission            a claim's folder, the starter's specification and its batch job
starter_installation  the starter in a folder of the site, or packed for a batch script
launch_settings       settings of claims' folders and starters
batch_script          a script that carries the starter, for nodes without a shared file system
portable_source       the starter's modules as interpreters from Python 3.6 on can run them
allowed_programs      programs that the site's owner allows
input_files           a claim's input files; `input_references` counts their readers
result_files, logs    output files and logs of a claim
file_sync             files of claims on machines that share nothing with the agent
cleanup               remove a claim's folder
"""
