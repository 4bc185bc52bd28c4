"""Nodes that share no file system with their agent, in front of real batch systems.

The agent's state is hidden from them: the batch scripts run in a mount namespace of their own, in
which an empty folder lies over it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest import SkipTest

import pytest

from koala.client import Client
from tests.agent.watching import Ear, process_ended
from tests.batch.systems import System, grid_over
from tests.live.grid import Grid, until

pytestmark = pytest.mark.lrm
