"""A training as a job of Slurm: `tfdist launch --on slurm`.

`batch_job` is what is asked for, as the script that sbatch takes. It also knows the options of sbatch that the script
has itself, and reads limits as Slurm writes them. `submission` gives it to Slurm, and says what Slurm does not,
or runs it in an allocation that is there already.
"""
