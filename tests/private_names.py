"""Every private name of TensorFlow and Keras that the source uses, and what for.

`tests/unit/test_private_names.py` compares this table with the source, `tests/tf/test_private_names.py` with the
installed TensorFlow and Keras: after an upgrade its failures are the list of what to check. The table does not have the
ops that rooms without TensorFlow describe, nor attributes whose names are put together at run time (`_numbers` of
feed/forecast).
"""

from typing import NamedTuple


class PrivateName(NamedTuple):
    """A name, the folders of `src/lowtide` that use it, and what for."""

    name: str
    folders: str
    purpose: str
    on: str = ""
    """Of an attribute: the sample objects of tests/tf/test_private_names.py that have it."""


P = PrivateName

MODULE_NAMES = (
    P("keras.src.backend.compute_output_spec", "tf/train", "build a model without running it"),
    P("keras.src.backend.get_keras_mask", "tf/microbatch", "split the mask of a batch with its rows"),
    P("keras.src.backend.set_keras_mask", "tf/microbatch", "split the mask of a batch with its rows"),
    P(
        "keras.src.backend.tensorflow.trainer.TensorFlowTrainer",
        "tf/microbatch",
        "find models with their own train_step",
    ),
    P(
        "keras.src.backend.tensorflow.trainer.TensorFlowTrainer.train_step",
        "tf/microbatch",
        "find models with their own train_step",
    ),
    P("keras.src.backend.tensorflow.trainer.reduce_per_replica", "tf/plan", "run several steps per call as fit does"),
    P(
        "keras.src.backend.common.global_state.get_global_attribute",
        "tf/train",
        "Keras's random generator, if it was made",
    ),
    P("keras.src.losses.loss.Loss", "tf/microbatch", "find losses with their own reduction"),
    P("keras.src.losses.loss.Loss.__call__", "tf/microbatch", "find losses with their own reduction"),
    P("keras.src.losses.loss.apply_mask", "tf/microbatch", "count the rows of a loss as Keras does"),
    P("keras.src.losses.loss.reduce_weighted_values", "tf/microbatch", "replace the reduction of a loss"),
    P("keras.src.losses.loss.scale_loss_for_distribution", "tf/microbatch", "scale the loss of a micro-batch"),
    P("keras.src.losses.loss.unscale_loss_for_distribution", "tf/microbatch", "report the loss of the whole batch"),
    P("keras.src.metrics.reduction_metrics.Mean", "tf/microbatch", "weight metrics by the rows of a micro-batch"),
    P("keras.src.metrics.reduction_metrics.Mean.update_state", "tf/microbatch", "weight metrics by rows"),
    P("keras.src.models.functional.Functional", "tf/plan", "find the last layers of a functional model"),
    P("keras.src.ops.function.Function", "tf", "leave out what a functional model knows by identity"),
    P("keras.src.random.seed_generator.GLOBAL_SEED_GENERATOR", "tf/train", "Keras's random generator, if it was made"),
    P("keras.src.random.seed_generator.global_seed_generator", "tf/train", "make Keras's random generator"),
    P("keras.src.saving.serialization_lib.SerializableDict", "tf/plan", "store the arguments of compile"),
    P("keras.src.trainers.trainer.Trainer", "tf/microbatch", "replace and compare methods of the training loop"),
    P("keras.src.trainers.trainer.Trainer._aggregate_additional_loss", "tf/microbatch", "scale added losses"),
    P("keras.src.trainers.trainer.Trainer.compute_loss", "tf/microbatch", "find models with their own compute_loss"),
    P(
        "keras.src.trainers.data_adapters.array_data_adapter.ArrayDataAdapter",
        "tf/train",
        "read the arguments of fit as Keras does",
    ),
    P(
        "keras.src.trainers.data_adapters.array_data_adapter.can_convert_arrays",
        "tf/train",
        "find data that Keras shuffles",
    ),
    P("keras.src.trainers.data_adapters.array_slicing.TensorflowSparseWrapper", "tf/train", "slice sparse arrays"),
    P("keras.src.trainers.data_adapters.array_slicing.convert_to_sliceable", "tf/train", "slice arrays as Keras does"),
    P("keras.src.trainers.data_adapters.array_slicing.train_validation_split", "tf/train", "split arrays as fit does"),
    P(
        "keras.src.trainers.data_adapters.array_slicing.slice_tensorflow_sparse_wrapper",
        "tf/train",
        "slice sparse arrays",
    ),
    P("keras.src.trainers.data_adapters.data_adapter.DataAdapter", "tf/train", "give fit data with a position"),
    P(
        "keras.src.trainers.data_adapters.generator_data_adapter.GeneratorDataAdapter",
        "tf/train",
        "find Python generators",
    ),
    P("keras.src.trainers.data_adapters.get_data_adapter", "tf/train", "read the arguments of fit as Keras does"),
    P(
        "keras.src.trainers.data_adapters.py_dataset_adapter.PyDatasetAdapter",
        "tf/train",
        "read a PyDataset as fit does",
    ),
    P("keras.src.trainers.data_adapters.tf_dataset_adapter.TFDatasetAdapter", "tf/train", "read a dataset as fit does"),
    P(
        "keras.src.trainers.data_adapters.torch_data_loader_adapter.TorchDataLoaderAdapter",
        "tf/train",
        "find DataLoaders",
    ),
    P("keras.src.utils.tracking.DotNotTrackScope", "tf/plan", "exchange layers without tracking them twice"),
    P("keras.src.utils.tracking.Tracker", "tf", "leave out what is known by identity"),
    P("tensorflow.core.framework.attr_value_pb2", "tf/plan tf/trace", "messages of a GraphDef"),
    P("tensorflow.core.framework.function_pb2", "tf/plan", "messages of a GraphDef"),
    P("tensorflow.core.framework.graph_pb2", "tf/plan tf/record tf/trace", "messages of a GraphDef"),
    P("tensorflow.core.framework.model_pb2", "feed/forecast tf/train", "read the model of a running tf.data pipeline"),
    P("tensorflow.core.framework.node_def_pb2", "tf/plan tf/record", "messages of a GraphDef"),
    P("tensorflow.core.framework.op_def_pb2", "tf/plan tf/trace", "types of the inputs and outputs of an op"),
    P("tensorflow.core.framework.tensor_pb2", "tf/trace", "values of constants"),
    P("tensorflow.core.framework.tensor_pb2.TensorProto", "tf/train", "read the state of an iterator"),
    P("tensorflow.core.framework.tensor_pb2.VariantTensorDataProto", "tf/train", "read the state of an iterator"),
    P("tensorflow.core.framework.tensor_shape_pb2", "tf/trace", "shapes in node attributes"),
    P("tensorflow.core.framework.types_pb2", "tf/trace", "types in node attributes"),
    P("tensorflow.core.grappler.costs.op_performance_data_pb2", "tf/trace", "shapes that Grappler infers"),
    P("tensorflow.core.protobuf.config_pb2", "tf/trace", "settings of Grappler"),
    P("tensorflow.core.protobuf.meta_graph_pb2", "tf/trace", "the input of Grappler's shape inference"),
    P("tensorflow.python.client.session.BaseSession", "tf", "hook: created sessions and their runs"),
    P("tensorflow.python.data.ops.dataset_ops.DatasetV2", "feed/forecast tf/watch", "find and recognise datasets"),
    P("tensorflow.python.data.util.structure.from_compatible_tensor_list", "feed/forecast", "call a stage's function"),
    P("tensorflow.python.data.util.structure.from_tensor_list", "feed/forecast", "elements of a dataset of tensors"),
    P("tensorflow.python.data.util.structure.to_tensor_list", "feed/forecast", "call a stage's function"),
    P("tensorflow.python.eager.backprop.GradientTape", "tf tf/watch", "hook: tapes; find tapes that are alive"),
    P(
        "tensorflow.python.eager.cancellation.CancellationManager",
        "tf/trace",
        "get the executed graph without running it",
    ),
    P("tensorflow.python.eager.cancellation.CancellationManagerContext", "tf/trace", "the same"),
    P("tensorflow.python.data.ops.cache_op.CacheDataset", "tf/train", "find what a restart loses"),
    P("tensorflow.python.data.ops.concatenate_op._ConcatenateDataset", "tf/train", "find inputs that start late"),
    P(
        "tensorflow.python.data.ops.directed_interleave_op._DirectedInterleaveDataset",
        "tf/train",
        "find stages that cannot be restored",
    ),
    P("tensorflow.python.data.ops.random_op._RandomDataset", "tf/train", "find stages that draw seeds"),
    P("tensorflow.python.data.ops.repeat_op._RepeatDataset", "tf/train", "find inputs that start late"),
    P("tensorflow.python.data.ops.shuffle_op._ShuffleDataset", "tf/train", "find stages that draw seeds"),
    P("tensorflow.python.data.ops.zip_op._ZipDataset", "tf/train", "find the order of the samples in fit"),
    P("tensorflow.python.eager.context.FunctionCallOptions", "tf/trace", "settings of Grappler for one function call"),
    P(
        "tensorflow.python.eager.context.context",
        "tf tf/plan tf/record tf/trace tf/train",
        "functions by name, devices, bytes in use, memory growth, random seeds",
    ),
    P("tensorflow.python.eager.context.global_seed", "tf/train", "the seed that a script has set"),
    P("tensorflow.python.eager.context.eager_mode", "tf/record", "read variables inside of a graph"),
    P("tensorflow.python.eager.context.ensure_initialized", "tf/trace", "initialize devices before XLA compiles"),
    P("tensorflow.python.eager.execute.execute", "tf/record", "read many variables with one op"),
    P(
        "tensorflow.python.eager.polymorphic_function.atomic_function.AtomicFunction",
        "tf/watch",
        "find the functions that can still run a graph",
    ),
    P(
        "tensorflow.python.eager.polymorphic_function.concrete_function.ConcreteFunction",
        "tf tf/watch",
        "hook: calls of traced functions; find the functions that can still run a graph",
    ),
    P(
        "tensorflow.python.eager.polymorphic_function.polymorphic_function.Function",
        "tf",
        "hook: calls of tf.functions",
    ),
    P("tensorflow.python.eager.polymorphic_function.tracing_compilation", "tf", "hook: traces"),
    P("tensorflow.python.framework.composite_tensor.CompositeTensor", "tf/plan", "results that are not tensors"),
    P("tensorflow.python.framework.func_graph.FuncGraph", "tf/watch", "graphs of functions, not of sessions"),
    P(
        "tensorflow.python.framework.op_def_registry.get",
        "tf/plan tf/trace tf/train",
        "types of the inputs and outputs of an op, and whether it has a state",
    ),
    P("tensorflow.python.framework.ops.EagerTensor", "tf/record tf/references tf/watch", "find tensors that are alive"),
    P(
        "tensorflow.python.framework.ops.EagerTensor.__basicsize__",
        "tf/references",
        "know tensors that are still being made, which have no handle",
    ),
    P("tensorflow.python.framework.ops.SymbolicTensor", "tf/watch", "find the graph that a gradient function keeps"),
    P("tensorflow.python.framework.ops.get_default_graph", "tf/watch", "keep the graphs that are being built"),
    P("tensorflow.python.framework.ops.gradient_registry", "tf/watch", "release the gradient functions of a model"),
    P("tensorflow.python.framework.ops.inside_function", "tf/watch", "leave out traces inside of a trace"),
    P("tensorflow.python.framework.ops.uid", "tf/watch", "the number of the newest tensor"),
    P("tensorflow.python.framework.tensor_util.MakeNdarray", "tf/trace", "values of constants"),
    P("tensorflow.python.framework.tensor_util.make_tensor_proto", "tf/trace", "values of constants"),
    P("tensorflow.python.framework.versions.GRAPH_DEF_VERSION", "tf/plan", "the version of a written GraphDef"),
    P("tensorflow.python.grappler._pywrap_tf_item.TF_GetOpProperties", "tf/trace", "Grappler's shape inference"),
    P("tensorflow.python.grappler._pywrap_tf_item.TF_NewItem", "tf/trace", "Grappler's shape inference"),
    P("tensorflow.python.ops.gen_resource_variable_ops.read_variable_op", "tf/record", "the address of a variable"),
    P("tensorflow.python.eager.backprop._gradient_function", "tf", "hook: the gradient of an eager op"),
    P("tensorflow.python.eager.imperative_grad", "tf", "hook: a tape computes gradients"),
    P("tensorflow.python.pywrap_tfe.TFE_Py_RegisterGradientFunction", "tf", "hook: the gradient of an eager op"),
    P("tensorflow.python.pywrap_tfe.TFE_Py_TapeSetIsEmpty", "tf", "whether a tape is open"),
    P("tensorflow.python.pywrap_tfe.__file__", "tf", "hide hooks of functions without code"),
    P("tensorflow.python.ops.resource_variable_ops.BaseResourceVariable", "tf/record tf/references", "find variables"),
    P(
        "tensorflow.python.ops.stateful_random_ops.global_generator",
        "tf/train",
        "TensorFlow's random generator, if it was made",
    ),
    P("tensorflow.python.profiler.internal._pywrap_profiler.ProfilerSession", "tf/record", "the allocator's events"),
    P("tensorflow.python.profiler.internal._pywrap_traceme.TraceMe", "tf/record", "mark calls among those events"),
    P("tensorflow.python.profiler.profiler_v2", "tf", "hook: the script starts a profiler"),
    P("tensorflow.python.util._pywrap_util_port.IsMklEnabled", "feed/forecast", "which allocator tensors come from"),
    P("tensorflow.python.util.tf_decorator.unwrap", "tf/watch", "the user's function behind a traced one"),
)

ATTRIBUTES = (
    P("_aggregate_additional_loss", "tf/microbatch", "scale added losses", on="model"),
    P("_autoconvert_optionals", "tf/plan", "make the function that fit calls", on="model"),
    P("_batch_size", "feed/forecast tf/trace", "size of the stage's batches", on="batch dataset, padded_batch dataset"),
    P("_batch_sizes", "feed/forecast", "sizes of the batches of a rebatch", on="rebatch dataset"),
    P("_buffer_size", "feed/forecast tf/train tf/watch", "capacity of the stage", on="shuffle dataset"),
    P("_call_flat", "tf", "hook: calls of traced functions", on="concrete function"),
    P("_call_has_training_arg", "tf/microbatch", "call a model as Keras does", on="model"),
    P("_closed", "tf/watch", "sessions that are still open", on="session"),
    P("_compile_config", "tf/plan tf/record", "the arguments of compile", on="model"),
    P("_compute_loss", "tf/microbatch", "the loss as Keras computes it", on="model"),
    P("_create_concrete_function", "tf", "hook: traces", on="tracing_compilation"),
    P("_dataset", "feed/forecast", "the dataset that another one wraps", on="adapted dataset"),
    P("_datasets", "feed/forecast", "the inputs of a zip", on="zip dataset"),
    P("_distribute_strategy", "tf/train", "the strategy that a model was made with", on="model"),
    P("_deterministic", "tf/train", "whether elements keep their order", on="parallel map dataset"),
    P("_explicitly_closed", "tf/watch", "interactive sessions that are still open", on="interactive session"),
    P("_filename", "feed/forecast tf/train", "the file of a cache", on="cache dataset"),
    P("_filenames", "feed/forecast", "the files of a reader", on="record dataset"),
    P(
        "_flatten_layers",
        "tf/microbatch tf/plan tf/record tf/remedies tf/trace tf/train",
        "all layers of a model",
        on="model",
    ),
    P("_func", "feed/forecast", "the user's function of a stage", on="map function"),
    P(
        "_functions",
        "tf/trace tf/train tf/watch",
        "the functions that a graph or a stage calls",
        on="graph, map dataset",
    ),
    P("_initial_epoch", "tf/train", "what a backup of Keras sets, which moves the epoch of a checkpoint", on="model"),
    P("_initialized", "tf/record", "read the allocator only when TensorFlow has devices", on="context"),
    P("_handle", "tf/references", "variables of the eager runtime", on="variable"),
    P("_handle_data", "tf/plan tf/references tf/trace", "shape and type of a variable", on="handle"),
    P(
        "_id",
        "tf/record tf/references tf/watch",
        "know tensors, and their order, without keeping them",
        on="eager tensor",
    ),
    P("_impl", "feed/forecast", "the dataset that another one wraps", on="wrapped dataset"),
    P("_inbound_nodes", "tf/record", "the layers that read an input", on="layer"),
    P(
        "_inputs",
        "feed/forecast tf/trace tf/train",
        "the datasets that a stage reads, the arrays of an adapter",
        on="batch dataset, array adapter",
    ),
    P("_inputs_struct", "tf/trace", "the structure of a model's inputs", on="functional model"),
    P("_is_stateful", "feed/forecast", "whether calls of a function may run in parallel", on="operation"),
    P("_iterator_resource", "feed/forecast tf/train", "the running pipeline of an iterator", on="iterator"),
    P("_is_tracing", "tf/train", "a profile that a callback makes", on="tensorboard callback"),
    P("_jit_compile", "tf/watch", "whether a tf.function is compiled", on="tf.function"),
    P("_keras_history", "tf/plan", "the layer that computes an output", on="keras tensor"),
    P("_key_func", "feed/forecast", "the groups of a stage", on="group_by_window dataset"),
    P("_loss_tracker", "tf/microbatch", "report the loss of the whole batch", on="model"),
    P("_map_func", "feed/forecast", "the function of a stage", on="map dataset"),
    P("_name", "tf/watch", "the name of a tf.function", on="tf.function"),
    P("_num_samples", "tf/train", "the number of samples in arrays", on="array adapter"),
    P("_output_signature", "tf/train", "tell what the batches of a PyDataset look like", on="PyDataset adapter"),
    P("_outputs_struct", "tf/trace", "the structure of a model's outputs", on="functional model"),
    P("_padded_shapes", "feed/forecast", "make a padded batch", on="padded_batch dataset"),
    P("_padding_values", "feed/forecast", "make a padded batch", on="padded_batch dataset"),
    P("_predicate", "feed/forecast", "the function of a filter", on="filter dataset"),
    P("_profiler_started", "tf/train", "a profile that a callback makes", on="tensorboard callback"),
    P("_reduce_func", "feed/forecast", "the function of a stage", on="group_by_window dataset"),
    P("_registry", "tf/watch", "the registered gradient functions", on="gradient registry"),
    P("_rng", "tf/train", "the seeds of operations", on="context"),
    P("_scan_func", "feed/forecast", "the function of a stage", on="scan dataset"),
    P("_seed", "tf/train", "whether a shuffle has a seed", on="shuffle dataset"),
    P("_seed2", "tf/train", "whether a shuffle has a seed", on="shuffle dataset"),
    P("_shape_tuple", "tf/watch", "the shape of an argument, quickly", on="eager tensor"),
    P("_size", "feed/forecast", "the size of windows", on="window dataset"),
    P("_trainable_variables", "tf/train", "the variables that an optimizer updates", on="optimizer"),
    P("_writers", "tf/train", "the open files of a callback", on="tensorboard callback"),
    P("_symbolic_build", "tf/trace", "build a model's metrics and optimizer", on="model"),
    P("_tensors", "feed/forecast", "the tensors that a dataset is made from", on="from_tensors dataset"),
    P("_tf_api_names", "tf/references", "the public name of a function of TensorFlow", on="function"),
    P("_type_spec", "tf/record", "ragged and sparse tensors", on="ragged tensor"),
    P("_unique_id", "tf/trace", "the order in which variables were created", on="variable"),
    P("_variant_tensor", "feed/pipeline", "wrap a dataset", on="batch dataset"),
    P("_weak_variables", "tf/record", "the variables of a function that still exist", on="graph"),
    P("_window_size_func", "feed/forecast", "the size of groups", on="group_by_window dataset"),
)

# Attributes that TensorFlow writes on nodes and functions of a graph.
NODE_ATTRIBUTES = (
    P("_XlaCompile", "tf/plan", "functions that stay calls"),
    P("_XlaMustCompile", "tf/plan tf/trace tf/watch", "functions that XLA compiles"),
    P("_class", "tf/plan", "colocation of nodes"),
    P("_handle_dtypes", "tf/plan tf/trace", "types of variables behind arguments"),
    P("_handle_shapes", "tf/plan tf/trace", "shapes of variables behind arguments"),
    P("_noinline", "tf/plan", "functions that stay calls"),
)

OPS = (
    P("_Arg", "tf/plan tf/record tf/trace", "the arguments of an executed graph"),
    P("_DeviceArg", "tf/record tf/trace", "the arguments of an executed graph"),
    P("_DeviceRetval", "tf/trace", "the results of an executed graph"),
    P("_MklNativeAvgPool3DGrad", "tf/trace", "ops with a shape as an input"),
    P("_MklNativeAvgPoolGrad", "tf/trace", "ops with a shape as an input"),
    P("_MklNativeConv2DBackpropInput", "tf/trace", "ops with a shape as an input"),
    P("_MklNativeConv3DBackpropInputV2", "tf/trace", "ops with a shape as an input"),
    P("_MklNativeDepthwiseConv2dNativeBackpropInput", "tf/trace", "ops with a shape as an input"),
    P("_MklNativePadWithConv2D", "tf/trace", "ops without a shape function"),
    P("_MklNativePadWithFusedConv2D", "tf/trace", "ops without a shape function"),
    P("_ReadVariablesOp", "tf/record", "read many variables with one op"),
    P("_Retval", "tf/plan tf/trace", "the results of an executed graph"),
)

ENVIRONMENT_VARIABLES = (
    P("ONEDNN_MAX_CPU_ISA", "program/facts", "the instruction set that oneDNN uses"),
    P("TF_BFC_MEMORY_DUMP", "oom run", "where the allocator dumps its heap"),
    P("TF_CPP_MIN_LOG_LEVEL", "cli run/startup tf/record", "fewer messages; none that reports an allocation is lost"),
    P("TF_CPU_ALLOCATOR_USE_BFC", "feed/forecast run tf/record", "a CPU allocator that keeps statistics and a record"),
    P("TF_CPU_BFC_MEM_LIMIT_IN_MB", "run run/train tf/record", "the limit of that allocator"),
    P("TF_GPU_ALLOCATOR", "oom tf/record", "named in advice"),
    P("TF_GPU_HOST_MEM_LIMIT_IN_MB", "oom", "named in advice"),
)

LIBRARY_SYMBOLS = (
    P(
        "_ZN3tsl8profiler19threadpool_listener10DeactivateEv",
        "tf/record",
        "turn off the profiler's events of thread pools",
    ),
)

ALL = (*MODULE_NAMES, *ATTRIBUTES, *NODE_ATTRIBUTES, *OPS, *ENVIRONMENT_VARIABLES, *LIBRARY_SYMBOLS)

# Strings of lowtide and of Python in the rooms with TensorFlow that look like private names of it.
OF_LOWTIDE = frozenset(("_fields", "_lowtide_tensors_first", "_unused"))
