//! Layer stacks, in the order that `.tnn`, Stockfish's and Jomfish's files have in common.

use super::{FieldReader, LoadError, extend};
use crate::limits::check_bias;
use crate::network::{Dense, Stack};

/// Reads the three layers of a stack. `layers` has their inputs and outputs. Weight rows are padded to a
/// multiple of `padding` inputs.
pub(super) fn read_stack(
    reader: &mut FieldReader<'_>,
    layers: &[(usize, usize)],
    padding: usize,
    number: usize,
) -> Result<Stack, LoadError> {
    let name = |layer: &str| format!("{layer} of layer stack {number}");
    let mut dense = |field: &str, (inputs, outputs): (usize, usize)| -> Result<Dense, LoadError> {
        let offset = reader.at();
        let bias = reader.array::<i32>(field, outputs)?;
        check_bias(&bias).map_err(|error| FieldReader::error(field, offset, error.to_string()))?;
        let stride = inputs.next_multiple_of(padding);
        let weights = reader.array(field, outputs * stride)?;
        Ok(Dense::new(inputs, &bias, &weights, stride))
    };
    let first = dense(&name("first layer"), layers[0])?;
    let second = dense(&name("second layer"), layers[1])?;
    let offset = reader.at();
    let field = name("last bias");
    let last_bias = reader.i32(&field)?;
    check_bias(&[last_bias]).map_err(|error| FieldReader::error(&field, offset, error.to_string()))?;
    let inputs = layers[2].0;
    let last = reader.array(&name("last layer"), inputs.next_multiple_of(padding))?[..inputs].to_vec();
    Ok(Stack { first, second, last_bias, last })
}

/// Writes what [`read_stack`] reads.
pub(super) fn put_stack(bytes: &mut Vec<u8>, stack: &Stack, padding: usize) {
    let pad = |bytes: &mut Vec<u8>, inputs: usize| {
        bytes.resize(bytes.len() + inputs.next_multiple_of(padding) - inputs, 0);
    };
    for dense in [&stack.first, &stack.second] {
        extend(bytes, dense.bias(), i32::to_le_bytes);
        for output in 0..dense.outputs {
            bytes.extend(dense.row(output).map(|weight| weight as u8));
            pad(bytes, dense.inputs);
        }
    }
    bytes.extend(stack.last_bias.to_le_bytes());
    bytes.extend(stack.last.iter().map(|&weight| weight as u8));
    pad(bytes, stack.last.len());
}
