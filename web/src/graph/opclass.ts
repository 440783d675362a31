// A few classes of ops, each with its own colour.

interface OpClass {
  name: string;
  hue: number | null;
}

const classes: [RegExp, OpClass][] = [
  [/^(Resource|Sparse|Ref)?Apply|^ResourceScatter|^ResourceSparseApply/, { name: 'optimizer update', hue: 12 }],
  [/^(Const|HostConst|ZerosLike|OnesLike|Fill|Range|NoOp|Empty)$/, { name: 'constant', hue: null }],
  [/^(_?Arg|_?Retval|Placeholder.*|InputLayer|_Recv|_Send|IteratorGetNext.*|_DeviceArg|_DeviceRetval)$/, { name: 'input and output', hue: 52 }],
  [/VariableOp$|^VarHandleOp|^Variable|^Assign|^VarIsInit|^TensorArray|^TensorList|^Stack|^LookupTable|^MutableHash/, { name: 'variable and state', hue: 34 }],
  [/PartitionedCall$|^(Stateless)?(If|While|Case)$|^(Enter|Exit|Merge|Switch|NextIteration|LoopCond)$|^RemoteCall|^SymbolicGradient/, { name: 'call and control flow', hue: 318 }],
  [/MatMul|^Conv|Conv2D|Conv3D|^Einsum|^DepthwiseConv|^Cudnn|Attention|^(Einsum)?Dense$|^(LSTM|GRU|SimpleRNN|Bidirectional)$/, { name: 'matrix and convolution', hue: 208 }],
  [/^(Sum|Mean|Max|Min|Prod|All|Any|ArgMax|ArgMin|L2Loss|Cumsum|BiasAddGrad|Softmax.*|LogSoftmax|.*Norm.*|.*Pool.*|SparseSoftmax.*|UnsortedSegment.*|Segment.*)$/, { name: 'reduction and normalization', hue: 140 }],
  [/^(Reshape|Flatten|Permute|RepeatVector|Cropping.*|UpSampling.*|ZeroPadding.*|Embedding|Transpose|ConjugateTranspose|Cast|Identity.*|Shape.*|Squeeze|ExpandDims|Slice|StridedSlice.*|Concat.*|Split.*|Pack|Unpack|Gather.*|Scatter.*|Tile|Pad.*|BroadcastTo|BroadcastGradientArgs|StopGradient|Size|Rank|InvertPermutation|Reverse.*|OneHot|Where|Select.*|ReadFile|Bitcast|Snapshot|PreventGradient)$/, { name: 'shape and copy', hue: 268 }],
  [/Random|Dropout|^Gaussian|^Truncated|^Multinomial|^Stateless(Uniform|Truncated|Random)/, { name: 'random', hue: 80 }],
  [/Dataset|^Decode|^Parse|^Read|Summary|^Save|^Restore|^Print|^String|^Assert/, { name: 'data and files', hue: 95 }],
];

const elementwise: OpClass = { name: 'element by element', hue: 178 };

export function classifyOp(op: string): OpClass {
  return classes.find(([pattern]) => pattern.test(op))?.[1] ?? elementwise;
}
