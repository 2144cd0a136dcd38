"""Trains the tiny dLLM from nothing: tokenizer, model, checkpoint.

Block-diffusion training (arXiv 2503.09573) lays a sample out as its clean sequence and,
behind it, noisy copies of the answer's blocks. A noisy block sees itself and the clean
blocks before it, and is to restore its masked tokens, so one pass trains every block.

That alone teaches a model of this size the form of JSON and not the copying of values.
So most batches of the first part are in *autoregressive form*, which is the same layout
at block size 1 with every answer token masked: each token is restored from all the text
to its left, where copying is easiest to learn. Later they are few.

A run has two lessons. The first takes nine steps of eleven, and its learning rate falls to
nothing. The last begins at a third of the full rate with what the first leaves weak: harder
C++, texts in no frame, and words that are coined six times in seven, with rarer endings too.

Run::

    python -m lave_plugin.demo.training.train --out DIR

A run may be stopped at any time, by ``--minutes``, SIGTERM or Ctrl-C, and goes on with
``--resume``. What it computes follows from ``--seed``, ``--steps``, ``--block-size`` and
``--threads`` alone, bit by bit, however often it is stopped: the samples and masks of a step are
drawn from the seed and the step's number, and the state on disk holds the weights and both
optimizers.
"""

import argparse
import json
import signal
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor
from tqdm import tqdm

from lave_plugin.demo.tasks import (
    FIRST_LESSON,
    LAST_LESSON,
    MAKERS,
    Lesson,
    held_out,
    training_samples,
)
from lave_plugin.demo.tasks.judging import is_valid
from lave_plugin.demo.training.evaluate import answers
from lave_plugin.demo.training.model import ModelSize, TinyDLLM, save_checkpoint
from lave_plugin.demo.training.muon import Muon
from lave_plugin.demo.training.packing import NOISY_COPIES, Batch, Example, pack, tokenize
from lave_plugin.demo.training.tokenizer import load_tokenizer, save_tokenizer, train_tokenizer

STATE = "run.pt"
DEFAULT_STEPS = 11_000
TOKENIZER_SAMPLES = 30_000
# Held-out samples that training looks at; `evaluate` uses another seed.
VALIDATION_SEED = 1
VALIDATION_SAMPLES = 12
VALIDATION_TASKS = [task for task in MAKERS if task not in ("expression", "field", "copy")]

# Rows of a block-diffusion batch, on average. A row in autoregressive form is about half as long.
ROWS = 16
# Samples are drawn for so many batches at once, which then hold rows of similar length and have
# about as many tokens each.
GROUP = 4

# The first lesson's share of the steps.
FIRST_SHARE = 9 / 11

# Until this share of the first lesson, batches are mostly in autoregressive form.
AUTOREGRESSIVE_UNTIL = 0.3
AUTOREGRESSIVE_EARLY, AUTOREGRESSIVE_LATE = 0.8, 0.15
COPY_EARLY, COPY_LATE = 0.2, 0.04

# The learning rate rises over WARM_UP_STEPS, is flat until FLAT_UNTIL of the first lesson, then
# falls to 0. In the last lesson it is that of a run that has had no first one.
MATRIX_RATE, EMBEDDING_RATE, NORM_RATE = 0.02, 0.004, 0.016
WARM_UP_STEPS = 100
FLAT_UNTIL = 0.4


def place_in(steps: int, step: int) -> tuple[Lesson, float]:
    """A step's lesson, and the share that lies before it: of the first lesson, or of the run."""
    first = round(steps * FIRST_SHARE)
    return (FIRST_LESSON, step / first) if step < first else (LAST_LESSON, step / steps)


def batches_of(
    tokenizer: Tokenizer, seed: int, steps: int, group: int, block_size: int
) -> list[Batch]:
    """The batches of GROUP steps, each of samples of similar length, in random order."""
    lesson, progress = place_in(steps, group * GROUP)
    noise = np.random.default_rng([seed, group])
    early = progress < AUTOREGRESSIVE_UNTIL
    share = AUTOREGRESSIVE_EARLY if early else AUTOREGRESSIVE_LATE
    autoregressive = bool(noise.random() < share)
    rows = ROWS * (2 if autoregressive else 1)
    copied = COPY_EARLY if early else COPY_LATE
    samples = training_samples(lesson, seed, group, GROUP * rows, copied)
    examples = sorted(
        (tokenize(tokenizer, sample) for sample in samples),
        key=_laid_out,
    )
    tokens = np.cumsum([_laid_out(example) for example in examples])
    inner = np.searchsorted(tokens, tokens[-1] * np.arange(1, GROUP) / GROUP)
    cuts = [0, *inner, len(examples)]
    return [
        pack(
            examples[cuts[place] : cuts[place + 1]],
            noise,
            block_size,
            autoregressive=autoregressive,
        )
        for place in noise.permutation(GROUP)
    ]


def _laid_out(example: Example) -> int:
    """About how many tokens a row of this sample takes."""
    return len(example.prompt) + (1 + NOISY_COPIES) * len(example.answer)


def computes_in_bfloat16(device: torch.device) -> bool:
    """Whether bfloat16 is the faster format: below AVX-512 a CPU emulates it, 20 times slower."""
    return device.type != "cpu" or torch.backends.cpu.get_cpu_capability() == "AVX512"


def loss_and_accuracy(model: TinyDLLM, batch: Batch) -> tuple[Tensor, float]:
    """The mean loss of the masked tokens, and the share restored right (padding aside)."""
    device = batch.token_ids.device
    with torch.autocast(device.type, torch.bfloat16, enabled=computes_in_bfloat16(device)):
        hidden = model.hidden(batch.token_ids, batch.positions, batch.visible, batch.noisy)
        chosen = batch.targets >= 0
        logits = model.logits(hidden[chosen])
    targets, weights = batch.targets[chosen], batch.weights[chosen]
    losses = F.cross_entropy(logits.float(), targets, reduction="none")
    right = (logits.argmax(-1) == targets)[weights == 1.0]
    return (losses * weights).sum() / weights.sum(), right.float().mean().item()


class Optimizers:
    """Muon for the matrices, AdamW for the embedding and the norms."""

    def __init__(self, model: TinyDLLM):
        named = list(model.named_parameters())
        embeddings = [p for name, p in named if "embed_tokens" in name]
        matrices = [p for name, p in named if p.dim() == 2 and "embed_tokens" not in name]
        norms = [p for _, p in named if p.dim() == 1]
        bfloat16 = computes_in_bfloat16(model.device)
        muon = Muon(matrices, MATRIX_RATE, torch.bfloat16 if bfloat16 else torch.float32)
        adam = torch.optim.AdamW(
            [
                {"params": embeddings, "lr": EMBEDDING_RATE},
                # QK-norm bounds the attention logits by its gains, which must grow fast.
                {"params": norms, "lr": NORM_RATE},
            ],
            betas=(0.9, 0.95),
            weight_decay=0.0,
        )
        self.all = [muon, adam]
        self.full_rates = [[group["lr"] for group in one.param_groups] for one in self.all]

    def step(self, rate: float) -> None:
        """Take one step at `rate` times the full learning rates."""
        for one, full_rates in zip(self.all, self.full_rates, strict=True):
            for group, full_rate in zip(one.param_groups, full_rates, strict=True):
                group["lr"] = full_rate * rate
            one.step()
            one.zero_grad()


def learning_rate(step: int, progress: float) -> float:
    """The share of the full rate; `progress` runs from 0 to 1."""
    warm_up = min(1.0, (step + 1) / WARM_UP_STEPS)
    return warm_up * min(1.0, (1 - progress) / (1 - FLAT_UNTIL))


class Validation:
    """Looks at the model on held-out samples, between training steps."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.samples = {
            task: held_out(VALIDATION_SAMPLES, VALIDATION_SEED, task) for task in VALIDATION_TASKS
        }

    @torch.no_grad()
    def restored(self, model: TinyDLLM) -> dict[str, list[float]]:
        """For each task the share of masked tokens restored right: autoregressive, in blocks."""
        result = {}
        for task, samples in self.samples.items():
            examples = [tokenize(self.tokenizer, sample) for sample in samples]
            batches = (
                pack(
                    examples,
                    np.random.default_rng(0),
                    model.size.block_size,
                    autoregressive=form,
                )
                for form in (True, False)
            )
            result[task] = [round(loss_and_accuracy(model, batch)[1], 3) for batch in batches]
        return result

    def answered(self, model: TinyDLLM, threshold: float) -> dict[str, str]:
        """For each task the percentages of valid answers and of those right to the letter."""
        every = [sample for samples in self.samples.values() for sample in samples]
        texts, _ = answers(model, self.tokenizer, every, threshold)
        told = iter(texts)
        result = {}
        for task, samples in self.samples.items():
            pairs = [(sample, next(told)) for sample in samples]
            valid = sum(is_valid(sample, text) for sample, text in pairs) / len(pairs)
            exact = sum(text == sample.answer for sample, text in pairs) / len(pairs)
            result[task] = f"{valid:.0%} / {exact:.0%}"
        return result


def tokenizer_of_samples(seed: int) -> Tokenizer:
    """A tokenizer learnt from prompts and answers, drawn as for training and never trained on."""
    samples = training_samples(FIRST_LESSON, seed, -1, TOKENIZER_SAMPLES, COPY_LATE)
    return train_tokenizer(
        text
        for sample in samples
        for text in (f"user\n{sample.prompt}\nassistant\n", sample.answer)
    )


class Run:
    """Tokenizer, model, optimizers and how far they are: all that ``--resume`` needs."""

    def __init__(
        self,
        out: Path,
        steps: int,
        seed: int,
        *,
        resume: bool,
        device: torch.device,
        size: ModelSize | None = None,
    ):
        self.out, self.steps, self.seed, self.device = out, steps, seed, device
        self.step, self.tokens, self.loss, self.seconds = 0, 0, 0.0, 0.0
        torch.manual_seed(seed)
        self.model = TinyDLLM(size).to(device)
        self.optimizers = Optimizers(self.model)
        if resume:
            self._load()
        else:
            out.mkdir(parents=True, exist_ok=True)
            self.tokenizer = tokenizer_of_samples(seed)
            save_tokenizer(self.tokenizer, out)
            (out / "log.jsonl").write_text("")
        self._group = -1
        self._batches: list[Batch] = []

    def _load(self) -> None:
        state = torch.load(self.out / STATE, map_location=self.device)
        if state["seed"] != self.seed:
            raise SystemExit(f"The run in {self.out} has the seed {state['seed']}: pass --seed.")
        self.tokenizer = load_tokenizer(self.out)
        self.model.load_state_dict(state["model"])
        for one, saved in zip(self.optimizers.all, state["optimizers"], strict=True):
            one.load_state_dict(saved)
        self.step, self.tokens = state["step"], state["tokens"]
        self.loss, self.seconds = state["loss"], state["seconds"]

    def save(self) -> None:
        """Write the state, whole or not at all, and the checkpoint as it is now."""
        state = {
            "seed": self.seed,
            "step": self.step,
            "tokens": self.tokens,
            "loss": self.loss,
            "seconds": self.seconds,
            "model": self.model.state_dict(),
            "optimizers": [one.state_dict() for one in self.optimizers.all],
        }
        unfinished = self.out / f"{STATE}.part"
        torch.save(state, unfinished)
        unfinished.replace(self.out / STATE)
        save_checkpoint(self.model, self.out)

    def batch(self) -> Batch:
        """What the next step learns from."""
        group, place = divmod(self.step, GROUP)
        if group != self._group:
            self._batches = batches_of(
                self.tokenizer, self.seed, self.steps, group, self.model.size.block_size
            )
            self._group = group
        return self._batches[place].to(self.device)

    def advance(self) -> float:
        """Take one step; the share of masked tokens restored right."""
        began, batch = time.monotonic(), self.batch()
        loss, accuracy = loss_and_accuracy(self.model, batch)
        loss.backward()
        _, progress = place_in(self.steps, self.step)
        self.optimizers.step(learning_rate(self.step, progress))
        self.step += 1
        self.tokens += batch.token_ids.numel()
        self.loss += (loss.item() - self.loss) * max(0.03, 1 / self.step)
        self.seconds += time.monotonic() - began
        return accuracy

    def look(self, validation: Validation) -> None:
        """Judge the model as it is, on the screen and in ``log.jsonl``."""
        seen = {
            "step": self.step,
            "minutes": round(self.seconds / 60, 1),
            "tokens": self.tokens,
            "loss": round(self.loss, 4),
            "restored": validation.restored(self.model),
            "valid / exact at 0.7": validation.answered(self.model, 0.7),
        }
        tqdm.write(json.dumps(seen))
        with (self.out / "log.jsonl").open("a") as log:
            log.write(json.dumps(seen) + "\n")


def train(run: Run, minutes: float | None, look_every: int, save_minutes: float) -> None:
    """Train until the last step, or until the time is up or somebody asks to stop."""
    stop: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stop.append(number))
    validation = Validation(run.tokenizer)
    began = saved = time.monotonic()
    with tqdm(total=run.steps, initial=run.step, unit="step", smoothing=0.05) as bar:
        while run.step < run.steps and not stop:
            now = time.monotonic()
            if minutes is not None and now - began > 60 * minutes:
                break
            if now - saved > 60 * save_minutes:
                run.save()
                saved = now
            accuracy = run.advance()
            bar.update()
            if run.step % 10 == 0:
                speed = int(run.tokens / run.seconds)
                bar.set_postfix(loss=f"{run.loss:.3f}", right=f"{accuracy:.2f}", tokens_per_s=speed)
            if run.step % look_every == 0 or run.step == run.steps:
                run.look(validation)
    run.save()
    print(f"{run.step} of {run.steps} steps, {run.tokens} tokens, {run.seconds / 60:.1f} minutes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for state and checkpoint")
    parser.add_argument("--steps", type=int, default=DEFAULT_STEPS, help="length of the whole run")
    parser.add_argument("--block-size", type=int, default=ModelSize.block_size)
    parser.add_argument("--minutes", type=float, help="stop this sitting after so long")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--look-every", type=int, default=800, help="steps between validations")
    parser.add_argument("--save-minutes", type=float, default=5.0, help="between two saves")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", help="torch's name of it, such as cuda")
    options = parser.parse_args()
    # A second thread on a core that others use makes a step many times slower.
    torch.set_num_threads(options.threads)
    if (options.out / STATE).exists() and not options.resume:
        parser.error(f"there is a run in {options.out}: --resume it, or choose another folder")
    device = torch.device(options.device)
    size = ModelSize(block_size=options.block_size)
    run = Run(
        options.out, options.steps, options.seed, resume=options.resume, device=device, size=size
    )
    train(run, options.minutes, options.look_every, options.save_minutes)


if __name__ == "__main__":
    main()
