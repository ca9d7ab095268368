"""JoeyNMT's own training step on batches from a file, for benchmarks/training.py. Its python is not ours:

python -m venv joey && joey/bin/pip install torch==2.13.0 joeynmt==2.3.0 importlib_metadata
python benchmarks/training.py --joeynmt joey/bin/python

joey/bin/python benchmarks/joeynmt_steps.py CONFIG.json BATCHES.pt     (prints the seconds that the updates took)
"""

import json
import sys
import time
from types import SimpleNamespace
from typing import Any

import torch
from joeynmt.batch import Batch
from joeynmt.builders import build_gradient_clipper, build_optimizer
from joeynmt.model import Model, build_model
from joeynmt.training import TrainManager
from joeynmt.vocabulary import Vocabulary

UNKNOWN, PAD, START, END = range(4)


def model_of(config: dict[str, Any]) -> Model:
    special = SimpleNamespace(
        unk_token="<unk>",
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        sep_token=None,
        unk_id=UNKNOWN,
        pad_id=PAD,
        bos_id=START,
        eos_id=END,
        lang_tags=[],
    )
    vocabulary = Vocabulary([str(number) for number in range(4, config["vocab"])], special)
    side = {
        "type": "transformer",
        "num_heads": config["heads"],
        "hidden_size": config["width"],
        "ff_size": config["inner"],
        "dropout": config["dropout"],
        "layer_norm": "pre" if config["norm_first"] else "post",
        "embeddings": {"embedding_dim": config["width"], "scale": True, "dropout": config["dropout"]},
    }
    model = build_model(
        {
            "encoder": {**side, "num_layers": config["encoder_layers"]},
            "decoder": {**side, "num_layers": config["decoder_layers"]},
            "tied_embeddings": True,
            "tied_softmax": True,
        },
        vocabulary,
        vocabulary,
    )
    model.loss_function = ("crossentropy", 0.1)
    return model


def batch_of(source: torch.Tensor, labels: torch.Tensor) -> Batch:
    """Our random batches have no padding, and the end in the last column."""
    labels[:, -1] = END
    return Batch(
        src=source,
        src_length=torch.full((len(source),), source.shape[1]),
        src_prompt_mask=None,
        trg=torch.cat((torch.full((len(labels), 1), START), labels), 1),
        trg_prompt_mask=None,
        indices=torch.arange(len(source)),
        device=torch.device("cpu"),
        pad_index=PAD,
        eos_index=END,
    )


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        config = json.load(file)
    batches = [batch_of(source, labels) for source, labels in torch.load(sys.argv[2])]
    torch.set_num_threads(config["threads"])
    model = model_of(config)
    settings = {
        "optimizer": "adamw",
        "learning_rate": 1e-3,
        "weight_decay": 0.0,
        "adam_betas": (0.9, 0.98),
        "clip_grad_norm": 1.0,
        "clip_grad_val": None,
    }
    optimizer, clip = build_optimizer(settings, model.parameters()), build_gradient_clipper(settings)
    manager = SimpleNamespace(
        model=model,
        autocast={"device_type": "cpu", "enabled": False},
        args=SimpleNamespace(normalization="tokens", batch_multiplier=1),
        n_gpu=0,
        scaler=None,
    )
    marks = []
    for batch in batches:
        TrainManager._train_step(manager, batch)
        clip(parameters=model.parameters())
        optimizer.step()
        model.zero_grad()
        marks.append(time.perf_counter())
    sys.stdout.write(f"{marks[-1] - marks[0]}\n")


if __name__ == "__main__":
    main()
