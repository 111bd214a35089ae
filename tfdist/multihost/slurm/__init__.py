"""A training as a job of Slurm: `tfdist launch --on slurm`.

`batch_job` is what is asked for, `batch_script` writes it as the script that sbatch takes, `submission` gives it to
Slurm, and `submission_notes` says what Slurm does not. `foreground_step` is the command that runs in an allocation that
is there already. `batch_job` also knows the options of sbatch that the script has itself, and reads limits as Slurm
writes them.
"""
