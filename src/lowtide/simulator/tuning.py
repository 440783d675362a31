"""The tuned numbers of the executor and allocator simulation, with what each was set from.

Numbers that are called recorded come from recordings of whole training processes with TensorFlow's own allocator.
Where neither comments nor history name a measurement, the comment gives the purpose of a number only. The rates of
single kernels are in `costs.py`.
"""

# --- The executor -----------------------------------------------------------------------------------------------------

# Microseconds to move one node through the queues; nodes in loop frames take longer. The durations in `costs.py` assume
# that the whole machine works on one node; work of one thread counts half, as the other threads work meanwhile.
NODE_OVERHEAD_US = 1.0
FRAMED_NODE_OVERHEAD_US = 1.5

# TensorFlow treats a kernel of less than 8,000 cycles as cheap once it has run about 90 times, which a kernel in a loop
# does in its first steps: 8,000 cycles are 2.3 to 4 microseconds at 2 to 3.5 GHz.
CHEAP_KERNEL_US = 3.0

# The longest time that a sleeping thread of the pool takes to notice new work.
WAKE_US = 20.0

# The standard deviation of the logarithm of a node's duration, from step to step.
DURATION_SPREAD = 0.3

# Kernels have threads of their own, so more threads are runnable than there are processors. About once in
# STALL_EVERY_US of work the operating system suspends a thread for up to LONGEST_STALL_US, one time slice. The other
# threads run ahead meanwhile, in a loop by many iterations.
STALL_EVERY_US, LONGEST_STALL_US = 5_000.0, 8_000.0

# The number of iterations of a loop whose end depends on the data.
UNKNOWN_LOOP_ITERATIONS = 16

# --- How many steps and processes are simulated -----------------------------------------------------------------------

# The first steps run in an allocator that has not settled yet.
WARM_UP_STEPS = 1
# Small programs are simulated for more steps: their variables keep moving in the allocator for a while, and one more
# step costs little. Programs of FEW_NODES nodes or more get FEWEST_STEPS.
FEWEST_STEPS, MOST_STEPS = 3, 20
FEW_NODES = 20_000
# Programs with loops have at least this many steps in all, and this many for each order of oneDNN's kernels.
FEWEST_STEPS_IN_LOOPS, FEWEST_STEPS_IN_ONE_ORDER = 8, 2
# The orders that are drawn, and the most that are simulated: most differ in ways that change nothing.
KERNEL_ORDERS, MOST_KERNEL_ORDERS = 16, 4
# A process replays steps until it has replayed this many events, so that fragmentation reaches its steady state.
AGING_EVENTS, MOST_AGING_STEPS = 70_000, 24
# The events to replay over all processes that find the expected peak, and the most processes.
REPLAYED_EVENTS, MOST_PROCESSES = 130_000, 8
# The same for the processes that are tried under a limit.
LIMITED_EVENTS, MOST_LIMITED_PROCESSES = 70_000, 6
# The same for planned steps, whose order is fixed by control edges. Their bound is a promise, so more processes are
# tried, and at least two.
LIMITED_EVENTS_IN_ORDER, MOST_PROCESSES_IN_ORDER = 250_000, 16

# --- The safe bound ---------------------------------------------------------------------------------------------------

# The bound lies this share above the median peak, because threads interleave in more ways than are simulated. The
# shares are the deviations of recorded steps from their median. Steps in a fixed order differ only in the addresses of
# their chunks.
SAFE_SPREAD, SAFE_SPREAD_IN_ORDER = 0.07, 0.04
# In programs with loops, the bound lies this share above the highest simulated peak, that of the step that frees memory
# as late as it can included. Of 11 programs on a busy machine, an LSTM at batch 1 came 30% above it, where many
# small tensors that pile up get chunks of up to twice their size; the others came at most 7% above it.
SAFE_SPREAD_IN_LOOPS = 0.3
# A limit is safe only if a limit that is smaller by this share is enough too.
SAFE_MARGIN = 0.015
# Bytes that are added to every bound.
SAFE_BYTES = 1 << 19
# A plan for a budget must also hold at limits that are smaller by these shares, because it may be chance that the
# chunks fit at exactly one limit. Introduced after a planned GAN ran out of memory under its budget.
BUDGET_REDUCTIONS = (0.0, 0.0075, 0.015, 0.03)

# --- What a process allocates besides the step ------------------------------------------------------------------------

# The most small tensors that a process keeps for each lasting buffer of the step, on average: constants of functions
# that were traced before, numbers from Python.
MOST_SMALL_ALLOCATIONS = 2.0
# The most tensors of the size of the largest lasting buffer that are alive together before the first step: an op that
# draws a batch of random numbers, or casts and scales one, has up to two more of its size.
MOST_EARLY_TENSORS = 2

# What a real process holds besides the step is allocated in at most this many pieces, of at least these bytes: its
# tensors and the unused ends of its variables' chunks fill the gaps between the step's variables.
HELD_PIECES, HELD_PIECE_BYTES = 64, 1 << 20

# --- The arena of a planned step --------------------------------------------------------------------------------------

# What was in use before is assumed to have been at least this many times what is in use now: creating variables and
# batches needs temporary tensors, and the allocator's own high-water mark may have been reset.
EARLIER_PEAK_FACTOR = 1.5
# A request that exceeds the limit makes the allocator wait for ten seconds, so only this many are tried.
MOST_ARENA_REQUESTS = 2
