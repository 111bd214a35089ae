"""accelerate launch --num_processes 2 before.py digits.npz checkpoint"""

import sys

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(gradient_accumulation_steps=2)
set_seed(7)
with np.load(sys.argv[1]) as digits:
    arrays = {name: torch.tensor(digits[name]) for name in digits.files}
train = TensorDataset(arrays["x_train"].float() / 16, arrays["y_train"].long())
test = TensorDataset(arrays["x_test"].float() / 16, arrays["y_test"].long())
# Of one process: two processes train with batches of 128.
loader, test_loader = DataLoader(train, batch_size=64, shuffle=True), DataLoader(test, batch_size=64)

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.004)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5 * len(loader))
model, optimizer, loader, test_loader, schedule = accelerator.prepare(model, optimizer, loader, test_loader, schedule)

for epoch in range(5):
    model.train()
    for images, labels in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(images), labels)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    model.eval()
    right = []
    for images, labels in test_loader:
        with torch.no_grad():
            predictions = model(images).argmax(1)
        predictions, labels = accelerator.gather_for_metrics((predictions, labels))
        right.append((predictions == labels).float())
    accelerator.print(f"epoch {epoch + 1}: test accuracy {torch.cat(right).mean().item():.4f}")
    accelerator.save_state(sys.argv[2])
