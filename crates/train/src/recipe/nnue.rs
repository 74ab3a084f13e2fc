//! The recipe of an NNUE: the network and the targets that it learns, besides what all recipes have.

use super::{KindOfRecipe, RecipeCore, RecipeError, RecipeKind, check_fraction, recipe_of_kind, within};
use crate::loss::Loss;
use crate::schedule::Schedule;
use serde::{Deserialize, Serialize};
use tandem_nnue::{
    Activation, Architecture, FeatureSet, HeadShape, InputActivation, OutputBuckets, StackShape,
};

/// A recipe for an NNUE, as it stands in a TOML file. It derefs to the keys that all recipes have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// The keys that all recipes have.
    #[serde(skip)]
    pub core: RecipeCore,
    /// Architecture of the network, the network to start from, and the quantisation.
    pub network: NetworkRecipe,
    /// Loss function and training targets; default the squared error of win probabilities, from scores alone.
    #[serde(default)]
    pub target: TargetRecipe,
}

recipe_of_kind!(Recipe, "tandem checkpoint 1");

/// Architecture of an NNUE and the scales of its quantisation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkRecipe {
    /// Float network (`.safetensors`) to start from, of the same architecture and scale; random
    /// initialisation if absent.
    #[serde(default)]
    pub init_from: Option<String>,
    /// Name of the feature set, for example `768`, `halfkp` or `halfka-v2-hm`.
    pub features: String,
    /// Width of the accumulator of one perspective, a multiple of 32.
    pub accumulator: usize,
    /// Both perspectives share the weights of the first layer; default true.
    #[serde(default = "default_true")]
    pub tied: bool,
    /// Activation of the accumulator in networks without stacks: `relu`, `crelu` or `screlu`, the default.
    #[serde(default = "default_activation")]
    pub activation: String,
    /// Number of output buckets, chosen by the number of pieces; default 1. With stacks, 8 means Stockfish's
    /// buckets.
    #[serde(default = "default_buckets")]
    pub buckets: usize,
    /// Dense layers after the accumulators; absent for a network with one output layer.
    #[serde(default)]
    pub stacks: Option<StackRecipe>,
    /// Piece-square values (PSQT) beside the first layer, for networks with stacks; default false.
    #[serde(default)]
    pub psqt: bool,
    /// Adds virtual features that all king buckets share, and folds them into each bucket when the network is
    /// written; default false. Helps if most features are rare in the data.
    #[serde(default)]
    pub factoriser: bool,
    /// Centipawns of an output of one, for networks without stacks; default 400.
    #[serde(default = "default_scale")]
    pub scale: i32,
    /// Quantisation scale of the accumulator for networks without stacks, the integer that represents 1.0;
    /// default 255.
    #[serde(default = "default_qa")]
    pub qa: i16,
    /// Quantisation scale of the output weights for networks without stacks, the integer that represents 1.0;
    /// default 64.
    #[serde(default = "default_qb")]
    pub qb: i16,
}

/// Dense layers after the accumulators, one set of them for each output bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackRecipe {
    /// Outputs of the first dense layer of each stack, for example 16.
    pub hidden: usize,
    /// Outputs of the second dense layer of each stack, for example 32.
    pub second: usize,
    /// Multiplies the two halves of each accumulator in pairs, which halves the inputs of the first dense
    /// layer; default false.
    #[serde(default)]
    pub pairwise: bool,
    /// Gives the second dense layer the squares of its inputs beside the clipped values, twice as many
    /// inputs; default false.
    #[serde(default)]
    pub squared_clipped: bool,
    /// Adds the last output of the first dense layer directly to the network's output; default false.
    #[serde(default)]
    pub skip: bool,
}

/// Loss function and training targets: how a score and a game result become one value to learn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetRecipe {
    /// Loss between the network's output and the target; default the square of the difference of win
    /// probabilities.
    #[serde(default)]
    pub loss: Loss,
    /// Centipawns that become 1.0 before the sigmoid, in the target and in the network's output; default 400.
    #[serde(default = "default_target_scale")]
    pub scale: f64,
    /// Weight of the game result in the target, from 0 to 1, as a number or a schedule; the rest is the
    /// score's. Default 0, scores alone. Called lambda, counted from the other end, in nnue-pytorch.
    #[serde(default = "default_wdl")]
    pub wdl: Schedule,
}

fn default_buckets() -> usize {
    1
}
fn default_true() -> bool {
    true
}
fn default_activation() -> String {
    "screlu".into()
}
fn default_scale() -> i32 {
    400
}
fn default_target_scale() -> f64 {
    400.0
}
fn default_qa() -> i16 {
    255
}
fn default_qb() -> i16 {
    64
}
fn default_wdl() -> Schedule {
    Schedule::Constant { value: 0.0 }
}

impl Default for TargetRecipe {
    fn default() -> Self {
        Self { loss: Loss::default(), scale: default_target_scale(), wdl: default_wdl() }
    }
}

/// Value of a pawn in the units of networks with stacks, which are those of Stockfish since 15.1.
pub const STACK_PAWN: i32 = 361;

impl NetworkRecipe {
    /// Architecture of the network that the keys of `[network]` describe.
    ///
    /// # Errors
    ///
    /// If the feature set or the activation is unknown, or if the sizes do not fit together.
    pub fn architecture(&self) -> Result<Architecture, RecipeError> {
        let invalid = |key, problem: String| RecipeError::Invalid { key, problem };
        let features = FeatureSet::by_name(&self.features);
        let features = features.map_err(|unknown| invalid("network.features", unknown.to_string()))?;
        let activation = self.activation.parse::<Activation>();
        let activation = activation.map_err(|unknown| invalid("network.activation", unknown.to_string()))?;
        let head = match &self.stacks {
            None => HeadShape::Flat { activation, buckets: OutputBuckets::bullet(self.buckets) },
            Some(stack) => HeadShape::Stacks(StackShape {
                input_activation: if stack.pairwise {
                    InputActivation::PairwiseMul127
                } else {
                    InputActivation::Clipped
                },
                squared_clipped: stack.squared_clipped,
                skip: stack.skip,
                hidden: stack.hidden,
                second: stack.second,
                buckets: if self.buckets == 8 {
                    OutputBuckets::STOCKFISH
                } else {
                    OutputBuckets::bullet(self.buckets)
                },
            }),
        };
        let architecture =
            Architecture { features, outputs: self.accumulator, tied: self.tied, psqt: self.psqt, head };
        architecture.check().map_err(|error| invalid(key_of(&error.part), error.problem))?;
        Ok(architecture)
    }
}

/// The recipe's key of a part of an architecture, which has another name in network files.
fn key_of(part: &str) -> &'static str {
    match part {
        "outputs" => "network.accumulator",
        "buckets" => "network.buckets",
        "psqt" => "network.psqt",
        "tied" => "network.tied",
        "hidden" => "network.stacks.hidden",
        "second" => "network.stacks.second",
        _ => "network",
    }
}

impl KindOfRecipe for Recipe {
    const KIND: RecipeKind = RecipeKind::Nnue;

    fn check(&self) -> Result<(), RecipeError> {
        let invalid = |key, problem: &str| Err(RecipeError::Invalid { key, problem: problem.into() });
        self.network.architecture()?;
        // With weights of up to 1.98 and biases of up to 16, more than this would leave 16 bits.
        within("network.qa", f64::from(self.network.qa), 1.0, 400.0)?;
        within("network.qb", f64::from(self.network.qb), 1.0, 16_384.0)?;
        within("network.scale", f64::from(self.network.scale), 1.0, f64::from(1 << 20))?;
        if let Loss::Power { power } = self.target.loss {
            within("target.loss.power", power, 1.0, 8.0)?;
        }
        check_fraction("target.wdl", &self.target.wdl)?;
        if !(self.target.scale.is_finite() && self.target.scale > 0.0) {
            return invalid("target.scale", "must be above zero: 400 is usual for centipawns");
        }
        let weights =
            self.data.train.iter().chain(&self.data.validation).filter_map(|source| source.wdl.as_ref());
        if self.target.loss == Loss::Score
            && !weights.chain([&self.target.wdl]).all(|weight| weight.is_always(0.0))
        {
            return invalid(
                "target.loss",
                "`score` does not use results: leave out every `wdl`, or choose another loss",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &str = r#"
        name = "first"
        [data]
        train = [{ path = "train.bf" }]
        [network]
        features = "halfkp"
        accumulator = 256
        tied = false
        activation = "crelu"
    "#;

    #[test]
    fn a_short_recipe_is_explained_in_full_and_means_the_same() {
        let recipe = Recipe::parse(SHORT).unwrap();
        assert_eq!(recipe.training.batch, 16_384);
        let explained = recipe.explain();
        assert!(explained.contains("validate_every = 10000000"), "{explained}");
        assert_eq!(Recipe::parse(&explained).unwrap(), recipe);
        let described = recipe.network.architecture().unwrap().to_string();
        assert_eq!(described, "halfkp 40960 -> 256x2 (own weights for each perspective) crelu -> 1");
        assert_eq!(recipe.steps(), 6104);
    }

    #[test]
    fn invalid_values_are_reported_by_their_key() {
        let with = |from: &str, to: &str| Recipe::parse(&SHORT.replace(from, to)).unwrap_err().to_string();
        assert!(with("accumulator = 256", "accumulators = 256").contains("accumulators"));
        assert!(with("\"halfkp\"", "\"halfpk\"").starts_with("network.features: "));
        let scores = "[target]\nloss = { kind = \"score\" }\nwdl = 0.5\n[network]";
        assert!(with("[network]", scores).starts_with("target.loss: "));
        let pulled = "[optimiser]\nkind = \"ranger\"\nlookahead_alpha = 1.5\n[network]";
        assert!(with("[network]", pulled).starts_with("optimiser.lookahead_alpha: "));
        let odd = with("accumulator = 256", "accumulator = 250");
        assert_eq!(odd, "network.accumulator: 250 is not a multiple of 32");
        let word = with("accumulator = 256", "accumulator = \"many\"");
        assert!(word.contains("expected a whole number of 0 or more"), "{word}");
        assert!(with("\"crelu\"", "\"gelu\"").contains("not one of relu, crelu, screlu"));
        assert!(
            with("path = \"train.bf\"", "path = \"train.bf\", filter = \"hm\"").contains("is not a rule")
        );
        assert!(with("[{ path = \"train.bf\" }]", "[]").contains("at least one file"));
        let with_wdl = |wdl: &str| Recipe::parse(&format!("{SHORT}\n[target]\nwdl = {wdl}\n"));
        assert!(with_wdl("30.0").unwrap_err().to_string().starts_with("target.wdl: "));
        assert!(with_wdl("\"much\"").unwrap_err().to_string().contains("a number, or a schedule"));
        assert_eq!(with_wdl("0.5").unwrap(), with_wdl("{ kind = \"constant\", value = 0.5 }").unwrap());
        let negative = Recipe::parse(&SHORT.replace("[data]", "lr = -1\n[data]"));
        assert!(negative.unwrap_err().to_string().starts_with("lr: "));
        assert!(with("\"first\"", "\"a/b\"").starts_with("name: "));
        assert!(with("\"first\"", "\"\"").starts_with("name: "));
        assert!(with("tied = false", "qa = 0").starts_with("network.qa: "));
        let beta = format!("{SHORT}\n[optimiser]\nkind = \"adam\"\nbeta2 = 1.0\n");
        assert!(Recipe::parse(&beta).unwrap_err().to_string().starts_with("optimiser.beta2: "));
        for (added, key) in [
            ("[optimiser]\nkind = \"adam\"\nepsilon = 0.0", "optimiser.epsilon: "),
            ("[training]\npatience = 3", "training.patience: "),
            ("[training]\ncuda_graph = false", "training.cuda_graph: it has no effect on NNUEs"),
            ("[training]\nema_every = 3", "training.ema_every: it has no effect"),
        ] {
            let error = Recipe::parse(&format!("{SHORT}\n{added}")).unwrap_err().to_string();
            assert!(error.starts_with(key), "{error}");
        }
        let rate = format!("{SHORT}\n[lr]\nkind = \"exponential\"\nstart = 1.0\nend = 0.0\n");
        assert!(Recipe::parse(&rate).unwrap_err().to_string().starts_with("lr: "));
    }

    /// Earlier versions wrote the defaults of all keys into the folder and the checkpoints of a run.
    #[test]
    fn keys_without_an_effect_on_stacks_are_refused_unless_they_are_at_their_defaults() {
        let stacks = SHORT.replace("activation = \"crelu\"", "stacks = { hidden = 8, second = 8 }");
        let plain = Recipe::parse(&stacks).unwrap();
        assert!(!plain.explain().contains("qa = "), "{}", plain.explain());
        for (key, default, other) in [
            ("activation", "\"screlu\"", "\"crelu\""),
            ("scale", "400", "300"),
            ("qa", "255", "127"),
            ("qb", "64", "128"),
        ] {
            let mut notices = Vec::new();
            let with = |value: &str| format!("{stacks}\n{key} = {value}\n");
            let read = Recipe::parse_with_notices(&with(default), &mut notices).unwrap();
            assert_eq!((&read, notices.len()), (&plain, 1), "{notices:?}");
            let error = Recipe::parse(&with(other)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("network.{key}: it has no effect: ")), "{error}");
            assert_eq!(Recipe::parse_stored(&with(other)).unwrap(), plain);
        }
    }

    #[test]
    fn stockfishs_architecture_can_be_described() {
        let text = r#"
            name = "sf15"
            [data]
            train = [{ path = "train.binpack", weight = 2.0, filter = "no-checks" }]
            [network]
            features = "halfka-v2-hm"
            accumulator = 1024
            buckets = 8
            psqt = true
            stacks = { hidden = 16, second = 32, pairwise = true, squared_clipped = true, skip = true }
            [target]
            loss = { kind = "power", power = 2.5 }
            wdl = { kind = "linear", start = 0.0, end = 0.3 }
            [lr]
            kind = "warm-up"
            steps = 100
            then = { kind = "one-cycle", peak = 1e-3 }
            [optimiser]
            kind = "ranger"
        "#;
        let recipe = Recipe::parse(text).unwrap();
        let described = recipe.network.architecture().unwrap().to_string();
        assert_eq!(
            described,
            "halfka-v2-hm 22528 -> 1024x2 pairwise -> 16 -> 32 -> 1, 8 stacks + piece squares"
        );
        assert_eq!(Recipe::parse(&recipe.explain()).unwrap(), recipe);
    }
}
