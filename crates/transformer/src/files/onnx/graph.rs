//! An ONNX graph that is built operator by operator.

use crate::{Activation, NormKind, Weights};
use std::collections::{HashMap, HashSet};
use tandem_util::protobuf::Message;

/// Numbers of the element types in the format.
const FLOAT: u64 = 1;
const INT64: u64 = 7;
/// Version of the file structure that goes with the opset.
const IR_VERSION: u64 = 8;
const OPSET: u64 = 17;

#[derive(Clone, Debug)]
pub(crate) struct Value(String);

pub(crate) enum Attribute<'a> {
    Int(&'static str, i64),
    Ints(&'static str, &'a [i64]),
    Float(&'static str, f32),
}

pub(crate) struct Graph<'a> {
    pub(crate) weights: &'a Weights,
    shapes: HashMap<String, Vec<usize>>,
    graph: Message,
    /// Number of values with a generated name.
    num_generated: usize,
    /// Names of the weights that the graph already has, because blocks may share them.
    stored_weights: HashSet<String>,
}

impl<'a> Graph<'a> {
    pub(crate) fn new(weights: &'a Weights) -> Self {
        let mut graph = Message::default();
        graph.text(2, "tandem");
        let shapes =
            weights.architecture().tensors().into_iter().map(|spec| (spec.name, spec.shape)).collect();
        Self { weights, shapes, graph, num_generated: 0, stored_weights: HashSet::new() }
    }

    /// The whole file, with the architecture in its metadata.
    pub(crate) fn into_model(self) -> Vec<u8> {
        let mut operators = Message::default();
        operators.text(1, "");
        operators.varint(2, OPSET);
        let mut described = Message::default();
        described.text(1, "architecture");
        described.text(2, &self.weights.architecture().to_toml());
        let mut model = Message::default();
        model.varint(1, IR_VERSION);
        model.text(2, "tandem");
        model.message(7, &self.graph);
        model.message(8, &operators);
        model.message(14, &described);
        model.into_bytes()
    }

    fn fresh(&mut self) -> Value {
        self.num_generated += 1;
        Value(format!("v{}", self.num_generated))
    }

    fn node(&mut self, operator: &str, inputs: &[&Value], outputs: &[&Value], attributes: &[Attribute<'_>]) {
        let mut node = Message::default();
        inputs.iter().for_each(|input| node.text(1, &input.0));
        outputs.iter().for_each(|output| node.text(2, &output.0));
        node.text(4, operator);
        for attribute in attributes {
            let mut message = Message::default();
            match attribute {
                Attribute::Int(name, number) => {
                    message.text(1, name);
                    message.varint(3, *number as u64);
                    message.varint(20, 2);
                }
                Attribute::Ints(name, values) => {
                    message.text(1, name);
                    values.iter().for_each(|&number| message.varint(8, number as u64));
                    message.varint(20, 7);
                }
                Attribute::Float(name, number) => {
                    message.text(1, name);
                    message.float(2, *number);
                    message.varint(20, 1);
                }
            }
            node.message(5, &message);
        }
        self.graph.message(1, &node);
    }

    pub(crate) fn op(&mut self, operator: &str, inputs: &[&Value], attributes: &[Attribute<'_>]) -> Value {
        let output = self.fresh();
        self.node(operator, inputs, &[&output], attributes);
        output
    }

    pub(crate) fn op_with_two_outputs(
        &mut self,
        operator: &str,
        inputs: &[&Value],
        attributes: &[Attribute<'_>],
    ) -> [Value; 2] {
        let outputs = [self.fresh(), self.fresh()];
        self.node(operator, inputs, &[&outputs[0], &outputs[1]], attributes);
        outputs
    }

    fn put_tensor(&mut self, name: Value, kind: u64, shape: &[usize], data: &[u8]) -> Value {
        let mut tensor = Message::default();
        shape.iter().for_each(|&size| tensor.varint(1, size as u64));
        tensor.varint(2, kind);
        tensor.text(8, &name.0);
        tensor.bytes(9, data);
        self.graph.message(5, &tensor);
        name
    }

    /// Adds a constant tensor of f32.
    pub(crate) fn floats(&mut self, shape: &[usize], values: &[f32]) -> Value {
        let data: Vec<u8> = values.iter().flat_map(|number| number.to_le_bytes()).collect();
        let name = self.fresh();
        self.put_tensor(name, FLOAT, shape, &data)
    }

    /// Adds a constant list of integers.
    pub(crate) fn ints(&mut self, values: &[i64]) -> Value {
        let data: Vec<u8> = values.iter().flat_map(|number| number.to_le_bytes()).collect();
        let name = self.fresh();
        self.put_tensor(name, INT64, &[values.len()], &data)
    }

    pub(crate) fn int(&mut self, number: i64) -> Value {
        let name = self.fresh();
        self.put_tensor(name, INT64, &[], &number.to_le_bytes())
    }

    fn described(name: &str, kind: u64, sizes: &[usize]) -> Message {
        let mut shape = Message::default();
        let mut batch = Message::default();
        batch.text(2, "batch");
        shape.message(1, &batch);
        for &size in sizes {
            let mut dimension = Message::default();
            dimension.varint(1, size as u64);
            shape.message(1, &dimension);
        }
        let mut tensor = Message::default();
        tensor.varint(1, kind);
        tensor.message(2, &shape);
        let mut of_type = Message::default();
        of_type.message(1, &tensor);
        let mut info = Message::default();
        info.text(1, name);
        info.message(2, &of_type);
        info
    }

    /// Declares an f32 input, with the sizes of one position.
    pub(crate) fn float_input(&mut self, name: &str, sizes: &[usize]) -> Value {
        self.graph.message(11, &Self::described(name, FLOAT, sizes));
        Value(name.into())
    }

    /// Declares an integer input, with the sizes of one position.
    pub(crate) fn int_input(&mut self, name: &str, sizes: &[usize]) -> Value {
        self.graph.message(11, &Self::described(name, INT64, sizes));
        Value(name.into())
    }

    /// Declares a value as an output of `size` elements for each position.
    pub(crate) fn output(&mut self, name: &str, value: &Value, size: usize) {
        self.node("Identity", &[value], &[&Value(name.into())], &[]);
        self.graph.message(12, &Self::described(name, FLOAT, &[size]));
    }

    /// Adds a tensor of the network, under its own name.
    pub(crate) fn tensor(&mut self, name: &str) -> Value {
        let (shape, values) = self.stored(name);
        let data: Vec<u8> = values.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.put_tensor(Value(name.into()), FLOAT, &shape, &data)
    }

    /// Shape and elements of a tensor of the network.
    pub(crate) fn stored(&self, name: &str) -> (Vec<usize>, &'a [f32]) {
        let shape = self.shapes.get(name).cloned().unwrap_or_default();
        (shape, self.weights.get(name).unwrap_or_default())
    }

    /// A linear layer on the last dimension. Its weights are transposed, because MatMul expects [inputs,
    /// outputs].
    pub(crate) fn linear(&mut self, x: &Value, name: &str) -> Value {
        let weight = Value(format!("{name}.weight"));
        if self.stored_weights.insert(weight.0.clone()) {
            let (shape, values) = self.stored(&weight.0);
            let (outputs, inputs) = (shape[0], shape[1]);
            let column = |input| (0..outputs).map(move |output| values[output * inputs + input]);
            let data: Vec<u8> = (0..inputs).flat_map(column).flat_map(f32::to_le_bytes).collect();
            self.put_tensor(weight.clone(), FLOAT, &[inputs, outputs], &data);
        }
        let product = self.op("MatMul", &[x, &weight], &[]);
        if self.weights.get(&format!("{name}.bias")).is_none() {
            return product;
        }
        let bias = self.tensor(&format!("{name}.bias"));
        self.op("Add", &[&product, &bias], &[])
    }

    pub(crate) fn norm(&mut self, x: &Value, name: &str) -> Value {
        let norm = self.weights.architecture().body.norm;
        self.norm_of(x, name, norm.kind, norm.epsilon)
    }

    pub(crate) fn norm_of(&mut self, x: &Value, name: &str, kind: NormKind, epsilon: f32) -> Value {
        let scale = self.tensor(&format!("{name}.scale"));
        match kind {
            NormKind::Layer => {
                let offset = self.tensor(&format!("{name}.offset"));
                let attributes = [Attribute::Int("axis", -1), Attribute::Float("epsilon", epsilon)];
                self.op("LayerNormalization", &[x, &scale, &offset], &attributes)
            }
            NormKind::Rms => {
                let squares = self.op("Mul", &[x, x], &[]);
                let mean = self.op("ReduceMean", &[&squares], &[Attribute::Ints("axes", &[-1])]);
                let epsilon = self.floats(&[], &[epsilon]);
                let mean = self.op("Add", &[&mean, &epsilon], &[]);
                let root = self.op("Sqrt", &[&mean], &[]);
                let even = self.op("Div", &[x, &root], &[]);
                self.op("Mul", &[&even, &scale], &[])
            }
        }
    }

    pub(crate) fn activate(&mut self, x: &Value, activation: Activation) -> Value {
        match activation {
            Activation::Silu => {
                let factor = self.op("Sigmoid", &[x], &[]);
                self.op("Mul", &[x, &factor], &[])
            }
            Activation::Mish => {
                let soft = self.op("Softplus", &[x], &[]);
                let factor = self.op("Tanh", &[&soft], &[]);
                self.op("Mul", &[x, &factor], &[])
            }
            Activation::Gelu => {
                let scaled = self.scale(x, std::f32::consts::FRAC_1_SQRT_2);
                let error = self.op("Erf", &[&scaled], &[]);
                let one = self.floats(&[], &[1.0]);
                let factor = self.op("Add", &[&error, &one], &[]);
                let factor = self.scale(&factor, 0.5);
                self.op("Mul", &[x, &factor], &[])
            }
            Activation::SquaredRelu => {
                let positive = self.op("Relu", &[x], &[]);
                self.op("Mul", &[&positive, &positive], &[])
            }
            Activation::Relu => self.op("Relu", &[x], &[]),
        }
    }

    /// A linear layer followed by the network's activation function.
    pub(crate) fn linear_activated(&mut self, x: &Value, name: &str) -> Value {
        let y = self.linear(x, name);
        self.activate(&y, self.weights.architecture().body.activation)
    }

    pub(crate) fn scale(&mut self, x: &Value, factor: f32) -> Value {
        let factor = self.floats(&[], &[factor]);
        self.op("Mul", &[x, &factor], &[])
    }

    /// Reshapes each position; the batch dimension stays.
    pub(crate) fn reshape(&mut self, x: &Value, sizes: &[usize]) -> Value {
        let shape: Vec<i64> = std::iter::once(0).chain(sizes.iter().map(|&size| size as i64)).collect();
        let shape = self.ints(&shape);
        self.op("Reshape", &[x, &shape], &[])
    }

    pub(crate) fn transpose(&mut self, x: &Value, order: &[i64]) -> Value {
        self.op("Transpose", &[x], &[Attribute::Ints("perm", order)])
    }

    pub(crate) fn slice(&mut self, x: &Value, axis: i64, range: std::ops::Range<usize>) -> Value {
        let begin = self.ints(&[range.start as i64]);
        let end = self.ints(&[range.end as i64]);
        let axis = self.ints(&[axis]);
        self.op("Slice", &[x, &begin, &end, &axis], &[])
    }

    pub(crate) fn unsqueeze(&mut self, x: &Value, axis: i64) -> Value {
        let axis = self.ints(&[axis]);
        self.op("Unsqueeze", &[x, &axis], &[])
    }
}
