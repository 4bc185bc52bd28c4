# noisy: a profile that sets SQUEUE_*, SINFO_*, SBATCH_* and a locale, a `module` function, and a home whose start-up files print
configure() { # dir name
  mkdir -p "$1/home" "$1/modules"
  setting "export SQUEUE_FORMAT='%.6i %.9P %j' SQUEUE_SORT=-p SQUEUE_STATES=RUNNING SQUEUE_USERS=nobody SQUEUE_PARTITION=batch"
  setting "export SINFO_FORMAT='%P %a' SINFO_SORT=-N SLURM_TIME_FORMAT=relative SLURM_BITSTR_LEN=8"
  setting "export SACCT_FORMAT=jobid SCONTROL_ALL=1"
  setting "export SBATCH_PARTITION=batch SBATCH_ACCOUNT=physics SBATCH_NO_REQUEUE=1 SBATCH_OPEN_MODE=append"
  setting "export LANG=de_DE.UTF-8 LESS=-R PS1='[\\u@$2 \\W]\\\$ ' MODULEPATH=$1/modules"
  setting 'module() { echo "module $*"; export LOADEDMODULES="${LOADEDMODULES:+$LOADEDMODULES:}$2"; }; export -f module'
  setting "export HOME=$1/home"
  echo "echo \"Welcome to $2! Scratch is 91% full.\"; echo \"quota: 4 of 5 TB\" >&2" | tee "$1/home/.bashrc" > "$1/home/.profile"
}
