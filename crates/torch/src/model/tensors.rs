//! The tensors of a network, by the part that uses them. They are looked up by name once, when a model is made,
//! so that a forward pass handles no names.

use crate::parameters::{ParameterLayout, TensorId};
use tandem_transformer::{Architecture, Embedding, FeedForward, Heads, PolicyKind};

/// A part of a network that has tensors of its own.
pub(super) trait Part: Sized {
    /// Looks up the tensors of the part with this name; `None` if the network has no such part.
    fn find(layout: &ParameterLayout, name: &str) -> Option<Self>;

    /// Looks up the tensors of a part that the architecture has.
    fn of(layout: &ParameterLayout, name: &str) -> Self {
        Self::find(layout, name).unwrap_or_else(|| unreachable!("the architecture has no {name}"))
    }
}

/// Declares parts by the names of their tensors, or of the parts that they consist of, after their own name.
macro_rules! parts {
    ($($(#[$doc:meta])* $part:ident { $($field:ident: $kind:ty = $name:literal,)* })*) => {
        $(
            $(#[$doc])*
            pub(super) struct $part {
                $(pub(super) $field: $kind,)*
            }

            impl Part for $part {
                fn find(layout: &ParameterLayout, name: &str) -> Option<Self> {
                    Some(Self { $($field: Part::find(layout, &format!("{name}{}", $name))?,)* })
                }
            }
        )*
    };
}

impl Part for TensorId {
    fn find(layout: &ParameterLayout, name: &str) -> Option<Self> {
        layout.find(name)
    }
}

/// A part that some networks lack.
impl<P: Part> Part for Option<P> {
    fn find(layout: &ParameterLayout, name: &str) -> Option<Self> {
        Some(P::find(layout, name))
    }
}

parts! {
    /// A linear layer.
    Linear { weight: TensorId = ".weight", bias: Option<TensorId> = ".bias", }
    /// A norm; RMS norm has no offset.
    Norm { scale: TensorId = ".scale", offset: Option<TensorId> = ".offset", }
    /// Two or three linear layers with an activation between them.
    FeedForwardTensors { input: Linear = ".in", gate: Option<Linear> = ".gate", output: Linear = ".out", }
    /// The attention of a layer, with the bias of each pair of squares if it is learnt directly.
    AttentionTensors {
        query: Linear = ".query",
        key: Linear = ".key",
        value: Linear = ".value",
        output: Linear = ".out",
        pairs: Option<TensorId> = ".pairs",
    }
    /// Smolgen of a layer; its last layer is shared by all.
    SmolgenTensors {
        squares: Linear = ".squares",
        board: Linear = ".board",
        board_norm: Norm = ".board_norm",
        heads: Linear = ".heads",
        heads_norm: Norm = ".heads_norm",
    }
    /// A factor and an offset for each value of each square.
    Gate { scale: TensorId = ".scale", offset: TensorId = ".offset", }
    /// An embedding of tokens.
    TextEmbedding { table: TensorId = ".table", positions: TensorId = ".positions", }
    /// An embedding of squares, each by itself.
    SquareEmbedding { squares: Linear = ".squares", positions: TensorId = ".positions", }
    /// An embedding of squares with a code of the whole board.
    BoardEmbedding {
        board: Linear = ".board",
        squares: Linear = ".squares",
        norm: Norm = ".norm",
        gate: Gate = ".gate",
        feed_forward: FeedForwardTensors = ".feed_forward",
        feed_forward_norm: Norm = ".feed_forward_norm",
    }
    /// Compresses every square, and then all of them to one vector.
    BoardVector { squares: Linear = ".squares", board: Linear = ".board", }
    /// Logits of moves from pairs of squares.
    MoveLogits { query: Linear = ".query", key: Linear = ".key", promotion: Linear = ".promotion", }
    /// A value head, with the predictions that it makes.
    ValueTensors {
        vector: BoardVector = "",
        wdl: Linear = ".wdl",
        error: Option<Linear> = ".error",
        buckets: Option<Linear> = ".buckets",
    }
    /// The head that predicts the number of plies left.
    MovesLeftTensors { vector: BoardVector = "", plies: Linear = ".plies", }
    /// The head that values moves.
    MoveValueTensors { squares: Linear = ".squares", logits: MoveLogits = "", }
    /// A bridge, which has a gate if it is of the gated form.
    BridgeTensors { linear: Linear = "", norm: Norm = ".norm", gate: Option<TensorId> = ".gate", }
}

/// The embedding of the input.
pub(super) enum EmbeddingTensors {
    Text(TextEmbedding),
    Squares(SquareEmbedding),
    Board(BoardEmbedding),
}

/// A layer of the body.
pub(super) struct LayerTensors {
    pub(super) attention: AttentionTensors,
    pub(super) smolgen: Option<SmolgenTensors>,
    pub(super) attention_norm: Norm,
    /// The router, if the layer has experts.
    pub(super) router: Option<Linear>,
    /// The feed-forward layers: one, or one for each expert.
    pub(super) feed_forward: Vec<FeedForwardTensors>,
    pub(super) feed_forward_norm: Norm,
}

/// The policies from pairs of squares, which share the vectors of the squares.
pub(super) struct PolicyTensors {
    pub(super) squares: Linear,
    /// The policy and its auxiliary targets, by name.
    pub(super) targets: Vec<(&'static str, MoveLogits)>,
}

/// All tensors of a network, and of a bridge to it.
pub(super) struct ModelTensors {
    pub(super) embedding: EmbeddingTensors,
    pub(super) layers: Vec<LayerTensors>,
    /// The last layer of smolgen.
    pub(super) generator: Option<Linear>,
    pub(super) last_norm: Option<Norm>,
    /// Heads that are a single layer on the last token, by name.
    pub(super) text_heads: Vec<(&'static str, Linear)>,
    pub(super) policy: Option<PolicyTensors>,
    pub(super) values: Vec<(&'static str, ValueTensors)>,
    pub(super) moves_left: Option<MovesLeftTensors>,
    pub(super) move_value: Option<MoveValueTensors>,
    pub(super) bridge: Option<BridgeTensors>,
}

impl ModelTensors {
    pub(super) fn of(layout: &ParameterLayout, architecture: &Architecture) -> Self {
        let Heads { action_value, state_value, policy, .. } = &architecture.heads;
        let attends = policy.as_ref().filter(|policy| policy.kind == PolicyKind::Attention);
        let has_text_head = [
            ("action_value", action_value.is_some()),
            ("state_value", state_value.is_some()),
            ("policy", policy.is_some() && attends.is_none()),
        ];
        let text_heads = has_text_head.into_iter().filter(|(_, has)| *has);
        let embedding = match (&architecture.embedding, architecture.input.channels()) {
            (Embedding::Positions, None) => EmbeddingTensors::Text(Part::of(layout, "embedding")),
            (Embedding::Positions, Some(_)) => EmbeddingTensors::Squares(Part::of(layout, "embedding")),
            (Embedding::DenseBoard(_), _) => EmbeddingTensors::Board(Part::of(layout, "embedding")),
        };
        let values = architecture.heads.values().into_iter().filter(|(_, head)| head.is_some());
        Self {
            embedding,
            layers: (0..architecture.body.layers).map(|at| layer(layout, architecture, at)).collect(),
            generator: Part::find(layout, "smolgen.generator"),
            last_norm: Part::find(layout, "last_norm"),
            text_heads: text_heads.map(|(name, _)| (name, Part::of(layout, name))).collect(),
            policy: attends.map(|policy| PolicyTensors {
                squares: Part::of(layout, "policy.squares"),
                targets: ["policy"]
                    .into_iter()
                    .chain(policy.aux_targets.iter().map(|target| target.name()))
                    .map(|name| (name, Part::of(layout, name)))
                    .collect(),
            }),
            values: values.map(|(name, _)| (name, Part::of(layout, name))).collect(),
            moves_left: Part::find(layout, "moves_left"),
            move_value: Part::find(layout, "move_value"),
            bridge: Part::find(layout, "bridge"),
        }
    }
}

fn layer(layout: &ParameterLayout, architecture: &Architecture, at: usize) -> LayerTensors {
    let name = |part: &str| format!("layers.{at}.{part}");
    let feed_forward = match &architecture.body.feed_forward {
        FeedForward::Dense { .. } | FeedForward::Gated { .. } => {
            vec![Part::of(layout, &name("feed_forward"))]
        }
        FeedForward::Experts(experts) => {
            (0..experts.count).map(|at| Part::of(layout, &name(&format!("experts.{at}")))).collect()
        }
    };
    LayerTensors {
        attention: Part::of(layout, &name("attention")),
        smolgen: Part::find(layout, &name("smolgen")),
        attention_norm: Part::of(layout, &name("attention_norm")),
        router: Part::find(layout, &name("router")),
        feed_forward,
        feed_forward_norm: Part::of(layout, &name("feed_forward_norm")),
    }
}
