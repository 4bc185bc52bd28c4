"""Commands for the grid and its daemon: sites, users, authority, backup, report."""

from koala.cli.lazy_group import LazyGroup

admin = LazyGroup(
    "admin",
    {
        "": {
            "queues": "koala.cli.admin.sites:queues",
            "metrics": "koala.cli.admin.sites:metrics",
            "report": "koala.cli.admin.report:report",
            "audit": "koala.cli.admin.users:audit",
            "authority": "@authority",
            "backup": "@backup",
            "restore": "@restore",
        }
    },
    help="Show queues, metrics, costs and audit log; back up.",
)
