"""What a recipe may say about training."""

from dataclasses import dataclass
from typing import Literal

from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    updates: int
    """How many times the weights are changed."""
    batch_tokens: int = 4096
    """Tokens of a batch, padding included: the larger of its source and its target side."""
    accumulate: int = 1
    """Batches that are added up to one update."""
    replicas: int = 0
    """On a CPU: threads that each learn from a part of every batch; 0 for as many as there are cores, 8 at most."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """muon: steps of one length in every direction for the matrices of linear parts, AdamW for all else."""
    lr: float = 1e-3
    """The highest learning rate, reached at the end of the warm-up."""
    schedule: Literal["inverse_sqrt", "cosine", "wsd", "constant"] = "inverse_sqrt"
    """How the rate goes on after the warm-up; inverse_sqrt is the paper's, wsd is warmup-stable-decay."""
    warmup: int = 1000
    """Updates over which the rate rises from 0."""
    decay: int = 0
    """wsd: the last so many updates, over which the rate falls to nothing."""
    lr_floor: float = 0.0
    """cosine and wsd: where the rate ends, as a share of its highest."""
    betas: tuple[float, ...] = (0.9, 0.98)
    eps: float = 1e-9
    weight_decay: float = 0.0
    """On matrices; never on biases, norms and embeddings."""
    clip: float = 1.0
    """Longest gradient; 0 for no limit."""
    label_smoothing: float = 0.1
    agreement: float = 0.0
    """R-Drop: how much two passes with different dropout must agree (5 in its paper). An update takes twice as long."""
    risk: float = 0.0
    """Of the loss, the share that is the expected loss of BLEU of what the model writes by itself; 0 for none. For a
    model that translates already: each update begins with a search."""
    risk_width: int = 6
    """Translations of a source that are found and compared with its target."""
    average: int = 1
    """The model that comes out is the mean of the last so many validated checkpoints."""
    average_best: bool = False
    """Of the best ones instead of the last ones."""
    moving_average: float = 0.0
    """Decay of a moving average of the weights, which then is what is validated and kept; 0 for none."""
    validate_every: int = 500
    """Updates between validations. A checkpoint is kept at each."""
    save_every: int = 0
    """Updates between further checkpoints to go on from; 0 for none."""
    stop_on: Literal["bleu", "loss", "none"] = "none"
    """What must improve for training to go on."""
    patience: int = 10
    """Validations without an improvement before it stops."""
    bad_loss: Literal["stop", "skip"] = "stop"
    """What to do when the loss is infinite or not a number."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """bfloat16 runs matrix products in half precision where the machine can; the weights stay float32."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """Under torchrun: copies of the model, or shards of it."""
    log_every: int = 20

    def __post_init__(self) -> None:
        for name in ("updates", "batch_tokens", "accumulate", "average", "validate_every", "log_every"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("warmup", "decay", "save_every", "replicas", "patience", "clip", "weight_decay", "agreement"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} must not be negative, but is {getattr(self, name)}")
        if self.risk_width < 2:
            raise ConfigError(f"risk_width must be at least 2, not {self.risk_width}: one translation has no better")
        if self.risk and self.agreement:
            raise ConfigError("risk and agreement are two ways to go on: use one of them")
        if self.risk and self.parallel == "fsdp":
            raise ConfigError("risk needs the whole model to translate with: use parallel = 'ddp'")
        for name in ("label_smoothing", "moving_average", "risk"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} must be in 0 … 1, but is {getattr(self, name)}")
        if not 0 <= self.lr_floor <= 1:
            raise ConfigError(f"lr_floor must be in 0 … 1, but is {self.lr_floor}")
        if not self.eps > 0:
            raise ConfigError(f"eps must be above 0, but is {self.eps}")
        if not 0 < self.lr < 10:
            raise ConfigError(f"lr {self.lr} is not a learning rate")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(f"betas must be two numbers in 0 … 1, not {self.betas}")
        if self.optimizer == "muon" and self.parallel == "fsdp":
            raise ConfigError("optimizer = 'muon' needs whole matrices: use parallel = 'ddp'")
        if self.schedule == "wsd" and not 0 < self.decay <= self.updates - self.warmup:
            raise ConfigError("schedule = 'wsd' needs a decay that fits between warmup and updates")
