"""Variables, control flow, tensor lists and tables, which the simulator handles itself, and updates in place."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.program.facts.op_fact import OpFact, register
from lowtide.program.facts.shapes import elements, input_shape, item_bytes, known
from lowtide.program.graph import NodeView

# The simulator implements these; the fact only says that the executor treats them as cheap.
register(
    """Const NoOp ControlTrigger Placeholder _Arg _Retval _DeviceArg _DeviceRetval HostConst ImmutableConst
    _ReadVariablesOp
    Switch _SwitchN RefSwitch Merge RefMerge Enter RefEnter Exit RefExit NextIteration RefNextIteration LoopCond
    StackPushV2 StackPopV2 StackCloseV2""",
    OpFact(cheap=True),
)
register("ReadVariableOp VarHandleOp _VarHandlesOp VariableShape VarIsInitializedOp DestroyResourceOp", OpFact())
register(
    """If StatelessIf While StatelessWhile Case StatelessCase PartitionedCall StatefulPartitionedCall
    RemoteCall SymbolicGradient Abort Assert""",
    OpFact(),
)
register(
    """AssignVariableOp AssignAddVariableOp AssignSubVariableOp ResourceScatterAdd ResourceScatterSub
    ResourceScatterMul ResourceScatterDiv ResourceScatterMax ResourceScatterMin ResourceScatterUpdate
    ResourceScatterNdAdd ResourceScatterNdSub ResourceScatterNdUpdate ResourceStridedSliceAssign
    ResourceCountUpTo""",
    OpFact(),
)
register(
    """ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad ResourceApplyAdagradDA ResourceApplyAdagradV2
    ResourceApplyAdam ResourceApplyAdamWithAmsgrad ResourceApplyAddSign ResourceApplyCenteredRMSProp
    ResourceApplyFtrl ResourceApplyFtrlV2 ResourceApplyGradientDescent ResourceApplyKerasMomentum
    ResourceApplyMomentum ResourceApplyPowerSign ResourceApplyProximalAdagrad ResourceApplyProximalGradientDescent
    ResourceApplyRMSProp ResourceSparseApplyAdadelta ResourceSparseApplyAdagrad ResourceSparseApplyAdagradDA
    ResourceSparseApplyAdagradV2 ResourceSparseApplyCenteredRMSProp ResourceSparseApplyFtrl
    ResourceSparseApplyFtrlV2 ResourceSparseApplyKerasMomentum ResourceSparseApplyMomentum
    ResourceSparseApplyProximalAdagrad ResourceSparseApplyProximalGradientDescent ResourceSparseApplyRMSProp""",
    OpFact(),
)


def _batched_indices(node: NodeView) -> Sequence[int]:
    if not node.attribute("batch_dims", 0):
        return ()
    return [elements(input_shape(node, 1)) * item_bytes(node.input_dtype(1))]


register("ResourceGather", OpFact(temporaries=known(_batched_indices)))
register("ResourceGatherNd", OpFact())
register(
    """TensorListConcat TensorListConcatV2 TensorListElementShape TensorListFromTensor TensorListGather
    TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack TensorListReserve TensorListResize
    TensorListScatterV2 TensorListSetItem TensorListSplit TensorListStack EmptyTensorList
    TensorListScatterIntoExistingList TensorListPushBackBatch TensorListConcatLists""",
    OpFact(),
)
register(
    """HashTableV2 LookupTableFindV2 LookupTableImportV2 LookupTableInsertV2 LookupTableSizeV2 MutableHashTableV2
    StringToHashBucketFast StringToHashBucketStrong AsString StringJoin StringFormat StringSplitV2 StringLower
    StringLength StaticRegexReplace RegexReplace ReduceJoin StringToNumber StringNGrams Substr DecodeRaw
    PrintV2 ScalarSummary WriteScalarSummary WriteSummary WriteHistogramSummary""",
    OpFact(),
)
register(
    """IteratorGetNext IteratorGetNextSync IteratorGetNextAsOptional OptionalGetValue OptionalHasValue OptionalNone
    OptionalFromValue IteratorV2 AnonymousIteratorV3 MakeIterator""",
    OpFact(),
)
register("PyFunc PyFuncStateless EagerPyFunc DeviceIndex", OpFact())
register("_Send _Recv _HostSend _HostRecv", OpFact())
register("CollectiveReduceV2 CollectiveReduceV3", OpFact(forwards=((0, 0),)))
register("Timestamp StatsAggregatorSummary XlaLaunch", OpFact())


def _cell_buffers(node: NodeView, x: int, state: int) -> tuple[int, int]:
    """Return the bytes of a cell's state for the batch, and of its input concatenated with that state."""
    batch, width = input_shape(node, x)[-2:]
    cell = input_shape(node, state)[-1]
    item = item_bytes(node.input_dtype(x))
    return batch * cell * item, batch * (width + cell) * item


def _lstm_cell(node: NodeView) -> Sequence[int]:
    state, joined = _cell_buffers(node, 0, 1)
    return [joined, 4 * state]


def _lstm_cell_gradient(node: NodeView) -> Sequence[int]:
    state, _ = _cell_buffers(node, 0, 1)
    return [state] * 5


def _lstm_sequence(node: NodeView) -> Sequence[int]:
    state, joined = _cell_buffers(node, 1, 2)
    return [joined, 4 * state]


def _lstm_sequence_gradient(node: NodeView) -> Sequence[int]:
    state, joined = _cell_buffers(node, 1, 2)
    return [joined] * 2 + [state] * 7 + [4 * state]


def _gru_cell(node: NodeView) -> Sequence[int]:
    state, joined = _cell_buffers(node, 0, 1)
    return [joined, joined, 2 * state]


def _gru_cell_gradient(node: NodeView) -> Sequence[int]:
    state, joined = _cell_buffers(node, 0, 1)
    return [state] * 3 + [joined] * 2


register("LSTMBlockCell", OpFact(forwards=((0, 2), (3, 1)), temporaries=known(_lstm_cell)))
register(
    "LSTMBlockCellGrad",
    OpFact(forwards=((0, 14), (2, 4), (3, 5), (4, 6)), temporaries=known(_lstm_cell_gradient)),
)
register("BlockLSTM BlockLSTMV2", OpFact(temporaries=known(_lstm_sequence)))
register("BlockLSTMGrad BlockLSTMGradV2", OpFact(temporaries=known(_lstm_sequence_gradient)))
register("GRUBlockCell", OpFact(forwards=((3, 1),), temporaries=known(_gru_cell)))
register("GRUBlockCellGrad", OpFact(forwards=((0, 0), (1, 1)), temporaries=known(_gru_cell_gradient)))

# Grappler turns a large AddN into a sum that accumulates in a temporary variable, in place.
register("TemporaryVariable", OpFact())
register("Assign AssignAdd AssignSub", OpFact(aliases=((0, 0),)))
register("DestroyTemporaryVariable", OpFact(aliases=((0, 0),)))
