"""torchrun --nproc-per-node 2 before.py digits.npz digits.pt"""

import os
import sys

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank, size = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")

torch.manual_seed(7)
with np.load(sys.argv[1]) as digits:
    x = torch.tensor(digits["x_train"] / 16.0, dtype=torch.float32)
    y = torch.tensor(digits["y_train"], dtype=torch.int64)
data = TensorDataset(x, y)
sampler = DistributedSampler(data, shuffle=True, seed=7)
loader = DataLoader(data, batch_size=128 // size, sampler=sampler)

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.BatchNorm1d(128), nn.Linear(128, 10)).to(device)
if device.type == "cuda":
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
model = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.002, weight_decay=0.01)
loss_of = nn.CrossEntropyLoss()

for epoch in range(5):
    sampler.set_epoch(epoch)
    right = torch.zeros(1, device=device)
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        logits = model(images)
        loss = loss_of(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        right += (logits.argmax(1) == labels).sum()
    dist.all_reduce(right)
    if rank == 0:
        print(f"epoch {epoch + 1}: accuracy {right.item() / (len(loader) * loader.batch_size * size):.4f}")

if rank == 0:
    torch.save(model.module.state_dict(), sys.argv[2])
dist.destroy_process_group()
