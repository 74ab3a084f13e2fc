//! Prints the outputs of a network for positions, for comparison with other programs:
//!
//! ```sh
//! cargo run --example evaluate -- x.safetensors int8 avx512 <inputs.json >outputs.jsonl
//! ```
//!
//! The first argument is a network file of any format; a precision and an instruction set may follow, by
//! default f32 and the best one of this machine. The input is one JSON object: `squares`, the channels of all
//! positions in a row, or `tokens`, 78 for each position, with `actions`, a list of moves for each, if the
//! network has an action-value head. Each output line is an object with the outputs of a position or move.

use serde_json::{Value, json};
use std::error::Error;
use std::io::{Read, Write};
use std::process::ExitCode;
use tandem_transformer::{Inputs, Isa, Network, Outputs, Precision, Scratch, Weights};

fn values<T: serde::de::DeserializeOwned>(inputs: &Value, name: &str) -> Result<Option<T>, Box<dyn Error>> {
    let found = inputs.get(name).cloned().map(serde_json::from_value);
    found.transpose().map_err(|error| format!("{name}: {error}").into())
}

fn object(outputs: &Outputs) -> Value {
    let mut object = json!({
        "action_value": outputs.action_value,
        "state_value": outputs.state_value,
        "policy": outputs.policy,
        "moves_left": outputs.moves_left,
        "move_value": outputs.move_value,
    });
    for (target, policy) in &outputs.aux_policies {
        object[target.name()] = json!(policy);
    }
    for (name, value) in ["value", "search_value", "short_term"].into_iter().zip(&outputs.values) {
        if let Some(value) = value {
            object[format!("{name}.wdl")] = json!(value.wdl);
            object[format!("{name}.error")] = json!(value.error);
            object[format!("{name}.buckets")] = json!(value.buckets);
        }
    }
    let empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if let Value::Object(fields) = &mut object {
        fields.retain(|_, value| !empty(value));
    }
    object
}

fn evaluate(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [file, options @ ..] = arguments else { return Err("a network file is needed".into()) };
    let (mut precision, mut isa) = (Precision::F32, Isa::best());
    for name in options {
        match Precision::ALL.into_iter().find(|precision| precision.name() == name) {
            Some(found) => precision = found,
            None => isa = name.parse()?,
        }
    }
    let network = Network::new(&Weights::load(file, None)?, precision, isa);
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let inputs: Value = serde_json::from_str(&text)?;
    let mut scratch = Scratch::default();
    let outputs = if let Some(squares) = values::<Vec<f32>>(&inputs, "squares")? {
        network.run(&Inputs::Squares(&squares), &mut scratch)?
    } else {
        let tokens: Vec<u16> = values(&inputs, "tokens")?.ok_or("squares or tokens are needed")?;
        let actions: Vec<Vec<u16>> = values(&inputs, "actions")?.unwrap_or_default();
        let actions: Vec<&[u16]> = actions.iter().map(Vec::as_slice).collect();
        network.run(&Inputs::Text { tokens: &tokens, actions: &actions }, &mut scratch)?
    };
    let mut out = std::io::stdout().lock();
    for output in outputs {
        writeln!(out, "{}", object(output))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match evaluate(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
