//! The second mind of the search: whether, how and with what the strategist is asked, as the options say.

use crate::options::{OptionError, clip};
use crate::output::complain;
use crate::searchless::score;
use std::fmt::Write;
use std::sync::Arc;
use tandem_chess::{Color, Position, uci};
use tandem_hybrid::{
    Circumstances, Counsel, CounselSettings, Features, Fingerprint, Hybrid, Minds, Mode, Opinion, Strategist,
    Threshold,
};
use tandem_nets::Judge;
use tandem_search::{Centipawns, Wdl};
use tandem_transformer::Network;

/// The depth at which `eval` asks the selector: one that a search may be at when it does.
const DEPTH_SHOWN: i32 = 12;

/// When the strategist is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Presence {
    /// Never.
    #[default]
    Off,
    /// Where depth and selector say so.
    Auto,
    /// Wherever depth says so.
    Always,
}

/// The options `Strategist`, `StrategistThreads`, `SelectorThreshold`, `Blend` and `HybridFile`. They may come in any order,
/// and so may the networks that they need, so that each is taken for itself, and what they lack together is said when a
/// search begins.
#[derive(Clone, Debug, Default)]
pub(crate) struct SecondMind {
    presence: Presence,
    threads: usize,
    threshold: Option<Threshold>,
    blend: Option<f32>,
    /// What was learnt between two networks, and the file it is from.
    hybrid: Option<(String, Hybrid)>,
    /// Both networks and what is between them, or why they are not together.
    minds: Option<Result<Arc<Minds>, String>>,
    counsel: Option<Arc<Counsel>>,
}

/// The networks in use, and which files they are.
pub(crate) struct Bases<'a> {
    pub(crate) judge: &'a Judge,
    /// None if the judge is no network, or the one built in.
    pub(crate) eval_file: Option<Fingerprint>,
    pub(crate) transformer: Option<(Fingerprint, &'a Arc<Network>)>,
}

impl SecondMind {
    /// Sets the option `Strategist`, which counts once the networks are brought together.
    pub(crate) fn set_presence(&mut self, value: &str) -> Result<(), OptionError> {
        self.presence = match value.to_ascii_lowercase().as_str() {
            "off" => Presence::Off,
            "auto" => Presence::Auto,
            "always" => Presence::Always,
            other => return Err(OptionError::Strategist(clip(other))),
        };
        Ok(())
    }

    /// Whether a strategist is wanted.
    pub(crate) fn is_wanted(&self) -> bool {
        self.presence != Presence::Off
    }

    /// Sets the option `StrategistThreads`; without any, the search thinks for the strategist.
    pub(crate) fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
        self.renew();
    }

    /// Sets the option `SelectorThreshold`.
    pub(crate) fn set_threshold(&mut self, probability: Option<f32>) {
        self.threshold = probability.map(Threshold::new);
        self.renew();
    }

    /// Sets the option `Blend`.
    pub(crate) fn set_blend(&mut self, blend: Option<f32>) {
        self.blend = blend;
        self.renew();
    }

    /// Sets the option `HybridFile`; nothing is none.
    pub(crate) fn set_file(&mut self, path: &str) -> Result<(), OptionError> {
        self.hybrid = match path {
            "" => None,
            path => Some((path.into(), Hybrid::load(path)?)),
        };
        Ok(())
    }

    /// Brings the networks together that are in use now.
    pub(crate) fn unite(&mut self, bases: &Bases<'_>) {
        self.minds = bases.transformer.map(|(file, network)| {
            let minds = self.united(bases, file, network);
            if let (Err(why), Some(_)) = (&minds, &self.hybrid) {
                complain(why);
            }
            minds.map(Arc::new)
        });
        self.renew();
    }

    fn united(
        &self,
        bases: &Bases<'_>,
        transformer: Fingerprint,
        network: &Arc<Network>,
    ) -> Result<Minds, String> {
        let tactician = match bases.judge {
            Judge::Bootstrap => None,
            Judge::Network(network) => Some(Arc::clone(network)),
        };
        let minds = Minds::new(Arc::clone(network), tactician).map_err(|error| error.to_string())?;
        let Some((file, hybrid)) = &self.hybrid else { return Ok(minds) };
        let problem = |error: &dyn std::fmt::Display| format!("HybridFile {file}: {error}");
        let nnue = match bases.judge {
            Judge::Bootstrap => None,
            Judge::Network(_) => {
                Some(bases.eval_file.unwrap_or_else(|| Fingerprint::of(tandem_nets::built_in_bytes())))
            }
        };
        hybrid.check(nnue, Some(transformer)).map_err(|error| problem(&error))?;
        minds.with_hybrid(hybrid.clone()).map_err(|error| problem(&error))
    }

    /// Holds counsel anew, or no more.
    fn renew(&mut self) {
        self.counsel = None;
        if self.presence == Presence::Off {
            return;
        }
        let Some(Ok(minds)) = &self.minds else { return };
        let mode = match self.threads {
            0 => CounselSettings::SLICE,
            threads => Mode::Threads(threads),
        };
        let settings = CounselSettings {
            always: self.presence == Presence::Always,
            threshold: self.threshold,
            blend: self.blend,
            ..CounselSettings::new(mode)
        };
        self.counsel = Some(Arc::new(Counsel::new(Arc::clone(minds), settings)));
    }

    /// The strategist's side of a search, if it has one.
    pub(crate) fn counsel(&self) -> Option<&Arc<Counsel>> {
        self.counsel.as_ref()
    }

    /// Why the search has no second mind although it was asked for.
    pub(crate) fn absence(&self) -> Option<String> {
        if self.presence == Presence::Off {
            return None;
        }
        let alone = "the search goes on without a strategist";
        match &self.minds {
            Some(Ok(_)) => None,
            Some(Err(why)) => Some(format!("{why}; {alone}")),
            None => Some(format!("Strategist needs a transformer; set TransformerFile to one; {alone}")),
        }
    }

    /// What both minds say of a position, if there are two. `blended` is what a search makes of an opinion and its share.
    pub(crate) fn describe(
        &self,
        position: &Position,
        tactician: Centipawns,
        judge: &Judge,
        chess960: bool,
        blended: impl FnOnce(&Opinion, f32) -> Centipawns,
    ) -> Option<String> {
        let minds = match self.minds.as_ref()? {
            Ok(minds) => minds,
            Err(why) => return Some(format!("Strategist: {why}")),
        };
        let is_white = position.side_to_move() == Color::White;
        let for_white = |Centipawns(value)| {
            let value = if is_white { value } else { -value };
            format!("{:+.2} (White's side)", f64::from(value) / 100.0)
        };
        let opinion = Strategist::new(Arc::clone(minds)).judge(position);
        let mut text = format!("Tactician: {}\n", for_white(tactician));
        match (opinion.centipawns(), opinion.prospect().map(score)) {
            (Some(value), Some((_, wdl))) => {
                let _ = write!(text, "Strategist: {}", for_white(Centipawns(value)));
                if let Some(Wdl { win, draw, loss }) = wdl {
                    let (win, loss) = if is_white { (win, loss) } else { (loss, win) };
                    let _ = write!(text, ", win {win} draw {draw} loss {loss} of 1000");
                }
                text.push('\n');
            }
            _ => text += "Strategist: no opinion of positions\n",
        }
        if let Some(doubt) = opinion.entropy() {
            let moves = opinion.policy().take(5).map(|(mv, share)| {
                let mv = uci::format(position.board(), mv, chess960);
                format!("{mv} {:.1} %", 100.0 * share.get())
            });
            let _ =
                writeln!(text, "Its moves: {}; doubt {doubt:.2} nats", moves.collect::<Vec<_>>().join(", "));
        }
        let threshold = self.threshold.unwrap_or(minds.threshold()).probability();
        match minds.selector() {
            Some(selector) => {
                let discord = match judge {
                    Judge::Network(network) => network.evaluate(position.board()).discord(),
                    Judge::Bootstrap => 0,
                };
                let circumstances = Circumstances { depth: DEPTH_SHOWN, discord: discord as f32 / 100.0 };
                let probability = selector.probability(&Features::of(position, circumstances));
                let _ = writeln!(
                    text,
                    "Selector: {probability:.3} at depth {DEPTH_SHOWN}, asked from {threshold:.3} on"
                );
            }
            None => text += "Selector: none, depth alone decides\n",
        }
        let blend = self.blend.unwrap_or(minds.blend());
        let value = for_white(blended(&opinion, blend));
        let _ = write!(text, "Blend: {blend:.2} of the strategist, {value} where a search asks it");
        Some(text)
    }
}
