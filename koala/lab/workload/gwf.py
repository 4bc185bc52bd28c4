"""The Grid Workload Format of the Grid Workloads Archive: 29 fields a job, -1 where nothing is
known; comments begin with a hash (Iosup et al., FGCS 24(7), 2008).

Its first eleven fields are numbers and mean what they mean in the Standard Workload Format; users,
sites, structure and resources are words.
"""

from __future__ import annotations

from koala.lab.workload.logs import Format

FORMAT = Format(
    name="gwf",
    fields=(
        "JobID", "SubmitTime", "WaitTime", "RunTime", "NProcs", "AverageCPUTimeUsed", "UsedMemory",
        "ReqNProcs", "ReqTime", "ReqMemory", "Status", "UserID", "GroupID", "ExecutableID",
        "QueueID", "PartitionID", "OrigSiteID", "LastRunSiteID", "JobStructure",
        "JobStructureParams", "UsedNetwork", "UsedLocalDiskSpace", "UsedResources", "ReqPlatform",
        "ReqNetwork", "ReqLocalDiskSpace", "ReqResources", "VOID", "ProjectID",
    ),
    comment="#",
    numbers=11,
)  # fmt: skip
