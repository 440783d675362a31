"""Every tuned number of planning, in one place.

A number stands here if another value would give another plan and nothing derives it. Where a measurement led to the
value, the comment names it; "not recorded" means that the history of the project does not say what it was measured on.
`python -m benchmarks.fit --ablate` plans the promise suite with each number varied and writes what each one buys to
benchmarks/fit/results/ablation.md.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """The tuned numbers, grouped by the stage that uses them."""

    # The order of nodes (planning/order).
    plain_executions: tuple[tuple[int, int], ...] = ((1, 0), (2, 0), (2, 1), (2, 2))
    """Threads and seed of the executions whose orders the search starts from. Not recorded."""
    order_ignored_share: float = 1 / 200
    """The smallest values are ignored while their sum is at most this share of the step's memory. Not recorded."""
    order_sources: int = 6
    """A small node that waits for more tasks than this becomes a task, so that edges stay few. Not recorded."""
    order_cut_tasks: int = 300_000
    """Effort: the number of minimum cuts times the number of tasks. Not recorded."""
    order_cuts: int = 40
    """The fewest minimum cuts, however many tasks there are. Not recorded."""
    order_close_share: float = 1 / 1000
    """An order this close to the lower bound of the peak ends the search. Not recorded."""
    order_tie_share: float = 1 / 500
    """Peaks this close count as equal; then the smaller sum over time wins. Not recorded."""
    order_mixed: int = 6
    """How many of the best orders are combined stage by stage with the others. Not recorded."""
    update_tries: int = 200
    """How often fewer weight updates are moved early, while moving them raises the peak. Not recorded."""

    # The planning problem.
    value_share: float = 1 / 4000
    """A value below this share of the step's peak is small and is not planned. Not recorded."""
    value_bytes: int = 16 << 10
    """A value below this size is small, whatever the peak is. Not recorded."""

    # Which tasks to rematerialize (planning/remat). Effort is counted in changes that were evaluated, so that the
    # result is the same on every machine.
    remat_effort: int = 25_000
    """A full search. Not recorded."""
    remat_quick_effort: int = 8_000
    """The first search for a target. Not recorded."""
    remat_worth_effort: float = 0.05
    """A solution that costs more than this share of the step is worth a full search. Not recorded."""
    remat_start_share: float = 0.5
    """The share of the effort that is spent on finding starting points. Not recorded."""
    remat_descent_effort: int = 40_000
    """Effort beyond the budgeted one to reach the memory budget at all. Not recorded."""
    remat_lowest_effort: int = 60_000
    """Effort to find the lowest schedule where no schedule reaches the budget. Not recorded."""
    remat_checkpoint_effort: int = 20_000
    """Effort from a checkpointed start, plus `remat_effort_per_task` for each task. Not recorded."""
    remat_effort_per_task: int = 4
    """See `remat_checkpoint_effort`. Not recorded."""
    remat_descent_per_task: int = 2
    """The effort per task that must be left to start another greedy search. Not recorded."""
    remat_stages: tuple[int, ...] = (3, 6, 12, 1)
    """In how many stages a greedy search lowers its budget; which is best differs between graphs. Not recorded."""
    remat_patience: int = 10
    """Failed improvements before the search stops, for each task that can be rematerialized. Not recorded."""
    remat_most_patience: int = 250
    """Failed improvements before the search stops, at most. Not recorded."""
    remat_neighborhood: int = 60
    """How many tasks an improvement looks at in a large graph. Not recorded."""
    remat_removed: float = 2.5
    """The mean number of rematerializations that an improvement removes first. Not recorded."""
    remat_adjacent_share: float = 0.33
    """How often the removed rematerializations are adjacent ones. Not recorded."""
    remat_restart_share: float = 0.3
    """How often all rematerializations are removed, in a small graph. Not recorded."""
    remat_ban_share: float = 0.5
    """How often the removed tasks may not be rematerialized again in the same improvement. Not recorded."""
    remat_cost_limit: float = 1.2
    """An improvement is abandoned at this multiple of the best cost. Not recorded."""
    remat_noises: tuple[float, ...] = (0.4, 1.0, 2.0)
    """Log-uniform noise on the gain of moves. Not recorded."""
    remat_warmth: float = 0.1
    """By which share a schedule may cost more than the last one, at first. Not recorded."""
    remat_halvings: int = 8
    """Bisection steps between a peak that is reached and one that is not. Not recorded."""
    remat_attempts: int = 2
    """Greedy searches for each step of the bisection. Not recorded."""
    remat_close_share: float = 1 / 500
    """The bisection ends when both peaks are this close. Not recorded."""
    remat_slack: float = 0.95
    """A move is made if the next candidate's bound times this is not better. Not recorded."""
    remat_gaps: int = 4
    """How many slots are tried for one task. Not recorded."""
    remat_bundle: int = 100
    """How many tasks one move rematerializes, at most. Not recorded."""
    checkpoint_play: float = 0.3
    """A checkpoint may move by this share of a segment to where fewer bytes cross it. Not recorded."""
    lower_targets: int = 3
    """How often a target is lowered that leads to a schedule which is known already. Not recorded."""
    lower_by: float = 0.03
    """By which share it is lowered. Not recorded."""
    frontier_points: int = 8
    """Budgets on the cost frontier. Not recorded."""

    # How the order is enforced (planning/rewrite).
    loose_running: int = 3
    """Under loose concurrency this many tasks may always run at once. Not recorded."""
    loose_share: float = 1.1
    """Memory that concurrent tasks may take under loose concurrency, as a share of the planned one. Not recorded."""
    loose_in_place_bytes: int = 256 << 10
    """Under loose concurrency, larger variables may move. Not recorded."""
    firm_share: float = 0.97
    """As `loose_share`, under firm concurrency. Not recorded."""
    window: int = 256
    """How many tasks may run at once where memory has room. Derived: the length of an ancestor bit set."""
    idle_share: float = 0.15
    """The time that is lost where a task runs alone. A strict order cost 12 to 26% of a step on two cores."""
    barrier_stride: int = 8
    """A barrier stands for this many tasks. Not recorded."""
    in_place_followers: int = 32
    """A node with more followers than this is not only part of a weight update. Not recorded."""
    in_place_changed: int = 4
    """A weight update changes at most this many variables: the weight and its optimizer slots. Not recorded."""
    held_filter_bytes: int = 64 << 10
    """Under XLA, larger filters wait for the gradient before they are transposed. Not recorded."""

    # The search for a plan (planning/plan_search). What the allocator's chunks take jumps from schedule to schedule, so
    # several rewrites are simulated.
    attempts: int = 4
    """Rewrites that are simulated, once one of them fits. Not recorded."""
    attempts_without_plan: int = 8
    """Rewrites that are simulated while none fits. Not recorded."""
    narrow_miss: float = 0.1
    """Where no attempt fits, and the smallest misses the budget by less than this share, schedules between the lowest
    one and the room are tried. Twelve such schedules of InceptionV3 took 389 to 439 MiB, in no order."""
    attempts_between: int = 12
    """How many of them are tried. In three processes the best of twelve took 0 to 4% less than the attempts before."""
    strict_after: int = 6
    """The attempt from which on the order is enforced more strictly. A strict order costs about 15% of a step; trying
    lower schedules first took a GAN at half of its activations from +19% to +14% and a VAE from +24% to +13%."""
    near_miss: float = 0.12
    """A first attempt that misses by less than this share of the room is followed by a lower target. Not recorded."""
    high_share: float = 0.9
    """The share of the room for a first, higher target where the lowest schedule is above the target. With it VGG19 at
    half of its activations has a plan on a CPU without oneDNN, at +7%."""
    missed_share: float = 0.05
    """Each miss lowers the target by this share more than the one before. Not recorded."""
    unused_share: float = 0.06
    """A plan that leaves less than this share of its budget unused is good enough. Not recorded."""
    cheap_share: float = 0.05
    """So is a plan that costs less than this share of the step, times the number of attempts. Not recorded."""
    cheap_share_compiled: float = 0.03
    """The same for a step that XLA compiles. Not recorded."""
    expensive_share: float = 0.1
    """A plan that costs more than this share of the step is tried again with fewer copies. That took a GAN at half of
    its activations from +35% to +17% and a VAE from +27% to +13%."""
    between: tuple[float, ...] = (0.5, 0.25, 0.1)
    """Where between the plan's target and the highest one the targets with fewer copies lie. Not recorded."""
    first_margin: float = 0.16
    """First guess of how far the safe limit is above the planned peak; each simulation corrects it. Not recorded."""
    unchecked_margin: float = 0.3
    """How far a plan that is not simulated must stay below the budget. The safe limit of the lowest schedule was 26%
    above its planned peak for InceptionV3, and 19% for four convolutions with BatchNormalization."""
    target_share: float = 0.98
    """The share of a corrected target that is planned for. Not recorded."""
    room_share: float = 0.25
    """How far above the simulated peak a promise may be. Recorded steps were up to 18% above the simulated median."""
    even_spread: float = 0.004
    """Peaks that differ by less than this share are the same from step to step. Not recorded."""

    # Variants of a step (tf/plan).
    split_gain: float = 0.05
    """A batch is split if that saves this share of the step's time. In two and in four pieces, programs took 0.91 to
    1.12 times as long as whole."""
    expensive_split: float = 0.05
    """A split batch is split further if its plan costs more than this share. Not recorded."""
    most_pieces: int = 64
    """The most micro-batches. Not recorded."""
    pruning_doubt: float = 0.5
    """How far below the extrapolation a variant may get, as a share of what the step itself takes. Not recorded."""
    covered_share: float = 0.5
    """A recording that covers less than this share of a step's time is of another program. Not recorded."""


TUNING = Tuning()
