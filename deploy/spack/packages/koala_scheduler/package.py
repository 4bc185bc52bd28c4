# Copyright the Koala developers. SPDX-License-Identifier: Apache-2.0
import os

from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class KoalaScheduler(PythonPackage):
    """Scheduler that starts the parts of a job on several clusters at one time."""

    # There is no public release and no home page yet. `make release` writes the archive below dist/;
    # Spack takes it from the folder in which you type the command:
    #   spack repo add deploy/spack && (cd dist && spack install --no-checksum koala-scheduler)
    manual_download = True

    license("Apache-2.0")

    version("0.3.0", url="file://{0}/koala-scheduler-0.3.0.tar.gz".format(os.getcwd()))

    variant("sim", default=False, description="Simulations, figures and the reproduction of papers")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-hatchling@1.26:", type="build")

    depends_on("py-grpcio@1.85.1:", type=("build", "run"))
    depends_on("py-protobuf@7.35.1:", type=("build", "run"))
    depends_on("py-structlog@24.4:", type=("build", "run"))
    depends_on("py-cryptography@43:", type=("build", "run"))
    depends_on("py-psutil@6.0:", type=("build", "run"))
    depends_on("py-msgspec@0.20:", type=("build", "run"))
    depends_on("py-tomli-w@1.1:", type=("build", "run"))
    depends_on("py-click@8.5:", type=("build", "run"))
    depends_on("py-rich@13.9:", type=("build", "run"))
    depends_on("py-aiomqtt@2.5:", type=("build", "run"))
    depends_on("py-pyyaml@6.0:", type=("build", "run"))

    depends_on("py-scipy@1.11:", type=("build", "run"), when="+sim")
    depends_on("py-matplotlib@3.8:", type=("build", "run"), when="+sim")
    depends_on("py-cloudpickle@3.0:", type=("build", "run"), when="+sim")
