//! The strategist of a build without the cargo feature `strategist`: there is none, and no option asks for one.

use crate::options::{Options, Session};
use crate::output::Faults;
use crate::searcher_thread::Task;
use crate::uci_output::UciOutput;
use tandem_chess::Position;
use tandem_nets::EvaluatorChoice;
use tandem_nnue::Isa;
use tandem_search::options::{Applied, UciOption};
use tandem_search::{Centipawns, Limits, NoRoom, Searcher};

/// Options of the strategist: none.
pub(crate) const TABLE: &[UciOption<Session>] = &[];

/// State of the options of the strategist. See the module of a build with the feature for the functions.
#[derive(Clone, Debug, Default)]
pub(crate) struct StrategistOptions {}

impl StrategistOptions {
    pub(crate) fn rebuild(&mut self, _evaluator: &EvaluatorChoice) {}

    pub(crate) fn set_eval_file(&mut self, _file: Option<&[u8]>) {}

    pub(crate) fn set_isa(&mut self, _isa: Isa) -> Applied {
        Ok(())
    }

    pub(crate) fn attach(&self, _searcher: &mut Searcher) -> Result<(), NoRoom> {
        Ok(())
    }

    pub(crate) fn player(
        &self,
        _position: &Position,
        _limits: &Limits,
        _output: &UciOutput,
        _faults: &Faults,
    ) -> Option<Task> {
        None
    }

    pub(crate) fn problem(&self) -> Option<String> {
        None
    }

    pub(crate) fn messages(&self) -> (impl FnOnce() + Send + use<>, impl FnOnce() + Send + use<>) {
        (|| (), || ())
    }

    pub(crate) fn describe(
        &self,
        _position: &Position,
        _tactician: Centipawns,
        _options: &Options,
        _searcher: &Searcher,
    ) -> Option<String> {
        None
    }
}
