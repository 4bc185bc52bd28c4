# filters: job_submit.lua demands an account; it, cli_filter.lua and a wrapper around sbatch print to both streams
configure() { # dir name
  set_key JobSubmitPlugins=lua
  set_key CliFilterPlugins=lua
  cat > "$1/job_submit.lua" <<'LUA'
function slurm_job_submit(job, partitions, uid)
  slurm.log_user("Scratch is 91%% full: see https://docs.example.org/scratch")
  if job.account == nil or job.account == "" then
    slurm.log_user("You must specify an account: sbatch -A <project>. See https://docs.example.org/accounts")
    return slurm.ERROR
  end
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end
return slurm.SUCCESS
LUA
  cat > "$1/cli_filter.lua" <<'LUA'
function slurm_cli_setup_defaults(options, early) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, offset)
  slurm.log_info("your project is checked")
  return slurm.SUCCESS
end
function slurm_cli_post_submit(offset, job, step) return slurm.SUCCESS end
LUA
  command_before "$1" sbatch 'echo "Welcome to '"$2"'!"; echo "sbatch: the maintenance is on Tuesday" >&2'
}
