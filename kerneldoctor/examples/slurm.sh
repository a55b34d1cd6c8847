#!/bin/bash
# sbatch slurm.sh: every rank tests its own GPU before the training starts; all of them stop where one cannot run.
#
# Once, on a node that has a network (one fetch instead of one a rank):
#   kerneldoctor prefetch --lock kerneldoctor.lock --to /shared/kernels
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00
set -euo pipefail

cd "$SLURM_SUBMIT_DIR"
export PATH="$PWD/.venv/bin:$PATH"
export HF_HUB_OFFLINE=1 KERNELS_CACHE=/shared/kernels

# The policy is [tool.kerneldoctor] of pyproject.toml, or kerneldoctor.toml. Rank 0 reports for all, and every rank ends
# with the same code. 0: ready; 1: a kernel or a GPU that fails; 3: a rank was not heard in time.
srun kerneldoctor preflight --offline --timeout 300 --report junit=preflight.xml

srun python train.py
