#!/usr/bin/env python3
"""Lightning's Trainer trains on Lockstep as on gloo, on 2 ranks."""
import importlib.util
import os
import sys
import unittest

import frameworks
import torch
import torch.distributed as dist

if not importlib.util.find_spec("lightning"):
    print("no module lightning: not tested")
    sys.exit(77)


def trainer(backend, file, steps, width):
    import lightning
    from lightning.pytorch.strategies import DDPStrategy

    import lockstep_torch  # noqa: F401  (registers itself)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = frameworks.Model(width)

        def training_step(self, batch, _):
            loss = self.model(**batch)["loss"]
            # Averaged over the ranks.
            self.log("loss", loss, sync_dist=True)
            return loss

        def on_train_batch_end(self, *_):
            losses.append(self.trainer.callback_metrics["loss"])
            clock()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), frameworks.RATE)

    clock, losses, module = frameworks.Clock(), [], Module()
    job = lightning.Trainer(
        accelerator="cpu", devices=frameworks.SIZE, max_steps=steps,
        strategy=DDPStrategy(process_group_backend=backend), logger=False,
        enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=os.path.dirname(file))
    job.fit(module, torch.utils.data.DataLoader(frameworks.Sequences(steps),
                                                batch_size=frameworks.ROWS))
    if job.is_global_zero:
        torch.save(frameworks.result(dist.get_backend(), losses, module, clock), file)


class Training(unittest.TestCase):
    def test_trainer(self):
        frameworks.check_as_on_gloo(self, __file__, ["trainer"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["trainer"]:
        frameworks.main({"trainer": trainer})
    else:
        unittest.main()
