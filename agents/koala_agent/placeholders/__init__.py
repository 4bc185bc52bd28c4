"""What a claim submits to the local manager, and the agent's contact with it.

submission           a claim's folder, the starter's specification and its batch job
batch_script         a script that carries the starter, for nodes without a shared file system
starter_listener     the port at which starters check in; `starter_codec` reads their lines
allowed_programs     programs that the site's owner allows
input_files          a claim's input files; `input_references` counts who still reads them
result_files, logs   output files and logs of a claim
file_sync            files of claims on machines that share nothing with the agent
cleanup              remove a claim's folder
"""
