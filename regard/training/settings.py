"""The [train] table of a recipe."""

from dataclasses import dataclass
from typing import Literal

from regard.config import check_range
from regard.decoding.settings import MAX_BEAM
from regard.errors import ConfigError

MAX_UPDATES = 99_999_999
"""The names of checkpoints have eight digits. No other whole number needs to be larger."""
MAX_ACCUMULATE = 10_000
"""All batches of an update are in memory."""
MAX_REPLICAS = 256
MAX_WEIGHT = 1e6
"""Of a part of the loss, of the decay, of a gradient: far from what overflows in float32."""


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    updates: int
    """Optimizer steps in total."""
    batch_tokens: int = 4096
    """Tokens per batch, padding included: the larger of its source and target side."""
    accumulate: int = 1
    """Batches per update."""
    replicas: int = 0
    """CPU only: threads that each train on a part of every batch. 0 means one per core, at most 8."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """muon: orthogonal steps for the matrices of linear layers, AdamW for everything else."""
    lr: float = 1e-3
    """Peak learning rate, reached at the end of the warm-up."""
    schedule: Literal["inverse_sqrt", "cosine", "wsd", "constant"] = "inverse_sqrt"
    """Learning rate after the warm-up. inverse_sqrt is the paper's; wsd is warmup-stable-decay."""
    warmup: int = 1000
    """Updates over which the learning rate rises from 0."""
    decay: int = 0
    """wsd: number of final updates over which the learning rate falls."""
    lr_floor: float = 0.0
    """cosine and wsd: final learning rate, as a fraction of the peak."""
    betas: tuple[float, ...] = (0.9, 0.98)
    """Decay of AdamW's averages of the gradient and of its square."""
    eps: float = 1e-9
    """Added to AdamW's divisor."""
    weight_decay: float = 0.0
    """Applied to matrices; never to biases, norms and embeddings."""
    clip: float = 1.0
    """Maximum gradient norm; 0 for no limit."""
    label_smoothing: float = 0.1
    """Share of the target probability that is spread over the whole vocabulary."""
    rdrop_alpha: float = 0.0
    """R-Drop: weight of the divergence between two passes with different dropout (5 in its paper); 0 turns it off.
    An update takes twice as long."""
    mrt_weight: float = 0.0
    """Minimum risk training: share of the loss given to the expected loss of BLEU of the model's own translations; 0
    turns it off. For a model that already translates: every update starts with a beam search."""
    mrt_samples: int = 6
    """Minimum risk training: translations per source, each compared with the target."""
    average: int = 1
    """The final model is the mean of this many validated checkpoints, the last ones."""
    average_best: bool = False
    """Average the best checkpoints instead of the last."""
    moving_average: float = 0.0
    """Decay of a moving average of the weights, which is then validated and exported; 0 turns it off."""
    validate_every: int = 500
    """Updates between validations. Each one saves a checkpoint."""
    save_every: int = 0
    """Updates between additional checkpoints to resume from; 0 for none."""
    stop_on: Literal["bleu", "loss", "none"] = "none"
    """Validation metric that must improve for training to continue."""
    patience: int = 10
    """Validations without improvement before training stops."""
    on_nonfinite: Literal["stop", "skip"] = "stop"
    """What to do with a batch whose loss or gradient is infinite or NaN."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """bfloat16 computes matrix products in half precision where the hardware can; the weights stay float32."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """Under torchrun: replicate the model, or shard it."""
    log_every: int = 20
    """Updates between lines of the log."""

    def __post_init__(self) -> None:
        for name in ("updates", "batch_tokens", "accumulate", "average", "validate_every", "log_every"):
            check_range(name, getattr(self, name), least=1)
        for name in ("warmup", "decay", "save_every", "replicas", "patience", "clip", "weight_decay", "rdrop_alpha"):
            check_range(name, getattr(self, name), least=0)
        for name, value in vars(self).items():
            if isinstance(value, int):
                most = {"accumulate": MAX_ACCUMULATE, "replicas": MAX_REPLICAS, "mrt_samples": MAX_BEAM}
                check_range(name, value, most=most.get(name, MAX_UPDATES))
        for name in ("clip", "weight_decay", "rdrop_alpha"):
            check_range(name, getattr(self, name), most=MAX_WEIGHT)
        check_range("mrt_samples", self.mrt_samples, least=2)
        for name in ("label_smoothing", "moving_average", "mrt_weight"):
            check_range(name, getattr(self, name), least=0, below=1)
        check_range("lr_floor", self.lr_floor, least=0, most=1)
        check_range("eps", self.eps, above=0)
        check_range("lr", self.lr, above=0, below=10)
        if self.mrt_weight and self.rdrop_alpha:
            raise ConfigError("mrt_weight and rdrop_alpha cannot be combined: set one of them to 0")
        if self.mrt_weight and self.parallel == "fsdp":
            raise ConfigError("mrt_weight needs the full model to translate with: use parallel = 'ddp'")
        if len(self.betas) != 2:
            raise ConfigError(f"betas must be two numbers, not {list(self.betas)}")
        for beta in self.betas:
            check_range("betas", beta, least=0, below=1)
        if self.optimizer == "muon" and self.parallel == "fsdp":
            raise ConfigError("optimizer = 'muon' needs whole matrices: use parallel = 'ddp'")
        if self.schedule == "wsd" and not 0 < self.decay <= self.updates - self.warmup:
            raise ConfigError("schedule = 'wsd' needs a decay that fits between warmup and updates")
