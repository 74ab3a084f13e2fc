//! All tuned parameters of the search, in one table: name, default, range and step.
//!
//! In an ordinary build a parameter is a constant. With the feature `tune` each searcher has `Values` of
//! its own, so that two settings can play each other within one program, and each parameter is also a UCI
//! option. A switch `use_…` is a parameter that is on unless a tuning build sets it to 0, which takes one
//! feature out of the search to measure what it is worth.

use crate::uci_option::UciOption;
#[cfg(feature = "tune")]
use std::cell::Cell;

/// A tunable constant of the search, for example a pruning margin.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Name, which is also the name of the UCI option in a tuning build.
    pub name: &'static str,
    /// Value in ordinary builds, and at the start of a tuning.
    pub default: i32,
    /// Lowest sensible value; tuning tries none below it.
    pub min: i32,
    /// Highest sensible value; tuning tries none above it.
    pub max: i32,
    /// Perturbation (change up or down that is tried) at the end of a tuning by SPSA: just large enough to
    /// matter.
    pub step: i32,
}

macro_rules! params {
    (
        switches { $( $switch:ident; )* }
        $( $(#[doc = $doc:literal])* $name:ident = $default:literal in $min:literal ..= $max:literal, step $step:literal; )*
    ) => {
        /// All parameters in the order of their declaration, on which journals of tunings rely.
        pub const TABLE: &[Param] = &[
            $( Param { name: stringify!($switch), default: 1, min: 0, max: 1, step: 1 }, )*
            $( Param { name: stringify!($name), default: $default, min: $min, max: $max, step: $step }, )*
        ];

        /// Something that searches with [`Values`], to which the UCI options of the parameters apply.
        pub(crate) trait Tuned: Sized + 'static {
            /// The values in use, of which an option changes one.
            #[cfg(feature = "tune")]
            fn values(&mut self) -> &mut Values;

            /// An option for each parameter in a tuning build. A switch is a number too, 0 or 1.
            #[cfg(feature = "tune")]
            const OPTIONS: &'static [UciOption<Self>] = &[
                $( tuned_option!($switch, 1, 0..=1), )*
                $( tuned_option!($name, $default, $min..=$max), )*
            ];
            /// No option, because the parameters are constants.
            #[cfg(not(feature = "tune"))]
            const OPTIONS: &'static [UciOption<Self>] = &[];
        }

        #[cfg(feature = "tune")]
        #[expect(non_camel_case_types, reason = "an index for each name of the table")]
        enum Index { $($switch,)* $($name,)* }

        #[cfg(feature = "tune")]
        thread_local! {
            /// Values used by the search that this thread works for.
            static CURRENT: [Cell<i32>; TABLE.len()] = const { defaults() };
        }

        $(
            #[inline(always)]
            pub(crate) fn $switch() -> bool {
                #[cfg(feature = "tune")]
                return CURRENT.with(|values| values[Index::$switch as usize].get() != 0);
                #[cfg(not(feature = "tune"))]
                return true;
            }
        )*

        $(
            $(#[doc = $doc])*
            #[inline(always)]
            pub(crate) fn $name() -> i32 {
                #[cfg(feature = "tune")]
                return CURRENT.with(|values| values[Index::$name as usize].get());
                #[cfg(not(feature = "tune"))]
                return $default;
            }
        )*
    };
}

/// The UCI option of a parameter.
#[cfg(feature = "tune")]
macro_rules! tuned_option {
    ($name:ident, $default:expr, $range:expr) => {
        UciOption::spin(stringify!($name), $default, $range, "", "", |target, value| {
            target.values().values[Index::$name as usize] = value as i32;
            Ok(())
        })
    };
}

#[cfg(feature = "tune")]
const fn defaults() -> [Cell<i32>; TABLE.len()] {
    let mut values = [const { Cell::new(0) }; TABLE.len()];
    let mut index = 0;
    while index < values.len() {
        values[index] = Cell::new(TABLE[index].default);
        index += 1;
    }
    values
}

/// Former names of parameters and the present ones. Journals of tunings, `--only` lists and scripts may still
/// use them, so [`current_name`] is applied wherever a name is read from outside.
const RENAMED: &[(&str, &str)] = &[
    ("use_counsel_order", "use_strategist_order"), // language: old name
    ("use_counsel_lmr", "use_strategist_lmr"),     // language: old name
    ("use_counsel_value", "use_strategist_value"), // language: old name
    ("use_counsel_time", "use_strategist_time"),   // language: old name
    ("counsel_pv_depth", "strategist_pv_depth"),   // language: old name
    ("counsel_depth", "strategist_depth"),         // language: old name
    ("counsel_order", "strategist_order"),         // language: old name
    ("counsel_first", "strategist_first"),         // language: old name
    ("counsel_lmr_share", "strategist_lmr_probability"), // language: old name
    ("counsel_lmr_doubt", "strategist_lmr_unlikely"), // language: old name
    ("counsel_lmr_doubt_below", "strategist_lmr_unlikely_below"), // language: old name
    ("counsel_scale", "strategist_scale"),         // language: old name
    ("counsel_value_max", "strategist_value_max"), // language: old name
    ("counsel_value_range", "strategist_value_range"), // language: old name
    ("counsel_time_base", "strategist_time_base"), // language: old name
    ("counsel_time_doubt", "strategist_time_entropy"), // language: old name
    ("surprise_margin", "fail_high_margin"),       // language: old name
    ("hopeless_depth", "quiets_futile_depth"),
    ("hopeless_reserve", "quiets_futile_margin"),
    ("rfp_least", "rfp_min_margin"),
    ("tm_share", "tm_fraction"),
];

/// Present name of a parameter, given its present or a former name, in upper or lower case; a name that is
/// neither is returned unchanged. For example `hopeless_depth` gives `quiets_futile_depth`.
pub fn current_name(name: &str) -> &str {
    let renamed = RENAMED.iter().find(|(old, _)| old.eq_ignore_ascii_case(name));
    renamed.map_or(name, |&(_, new)| new)
}

impl Param {
    /// True if a pattern selects the parameter: its name, or the beginning of names followed by `*`. Former
    /// names select as they did when they were in use; for example `hopeless_*` selects both
    /// `quiets_futile_…`.
    pub fn matches(&self, pattern: &str) -> bool {
        let is_selected = |name: &str| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern,
        };
        is_selected(self.name) || RENAMED.iter().any(|&(old, new)| new == self.name && is_selected(old))
    }
}

/// A value for each parameter. Empty in an ordinary build, in which all have their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "tune"), derive(Default))]
pub struct Values {
    /// In the order of [`TABLE`].
    #[cfg(feature = "tune")]
    values: [i32; TABLE.len()],
}

#[cfg(feature = "tune")]
impl Default for Values {
    fn default() -> Self {
        Self { values: std::array::from_fn(|index| TABLE[index].default) }
    }
}

impl Values {
    /// Sets the parameter of this name, which may be a former one. Returns false, and changes nothing, if
    /// there is none or the value is outside [`Param::min`] to [`Param::max`].
    #[cfg(feature = "tune")]
    pub fn set(&mut self, name: &str, value: i32) -> bool {
        let name = current_name(name);
        let Some(index) = TABLE.iter().position(|param| param.name == name) else { return false };
        let in_range = (TABLE[index].min..=TABLE[index].max).contains(&value);
        if in_range {
            self.values[index] = value;
        }
        in_range
    }

    /// Makes this thread search with these values from now on.
    pub(crate) fn make_current(&self) {
        #[cfg(feature = "tune")]
        CURRENT.with(|values| values.iter().zip(self.values).for_each(|(cell, value)| cell.set(value)));
    }
}

params! {
    // One for each feature that the lab-book measures.
    switches {
        use_tt_cutoff;
        use_tt_move;
        use_butterfly;
        use_capture_history;
        use_continuation;
        use_pawn_history;
        use_correction;
        use_lmr;
        use_rfp;
        use_nmp;
        use_probcut;
        use_futility;
        use_lmp;
        use_see_pruning;
        use_history_pruning;
        use_singular;
        use_multicut;
        use_double_extension;
        use_negative_extension;
        use_iir;
        use_improving;
        use_aspiration;
        use_hindsight;
        use_qs_tt;
        use_qs_see;
        use_upcoming_repetition;
        use_mate_distance;
        use_fifty_damping;
        // Uses of the strategist's evaluation, if there is a strategist.
        use_strategist_order;
        use_strategist_lmr;
        use_strategist_value;
        use_strategist_time;
    }

    // --- Aspiration windows.
    /// Half-width of the first window, in centipawns.
    asp_delta = 14 in 5..=50, step 3;
    /// Divisor of the squared score that is added to the half-width; smaller values widen the windows of
    /// large scores.
    asp_score_div = 12000 in 4000..=40000, step 2000;
    /// Growth of the window after a fail high or low, in percent.
    asp_growth = 45 in 10..=150, step 10;

    // --- Transposition table (TT) and internal iterative reduction (IIR).
    /// Above this depth a TT cutoff requires that the score agrees with the expected type of the node.
    tt_cutoff_depth = 5 in 2..=10, step 1;
    /// Minimum depth of internal iterative reduction (IIR) for a node without TT move.
    iir_depth = 4 in 2..=8, step 1;
    /// Minimum depth of IIR for a node whose TT move is from a search more than `iir_stale_plies` shallower.
    iir_stale_depth = 8 in 4..=14, step 1;
    iir_stale_plies = 4 in 2..=8, step 1;

    // --- Reverse futility pruning (RFP).
    rfp_depth = 10 in 4..=16, step 1;
    rfp_margin = 70 in 30..=150, step 6;
    rfp_improving = 62 in 0..=150, step 8;
    rfp_worsening = 18 in 0..=80, step 5;
    rfp_complexity = 60 in 0..=200, step 12;
    rfp_min_margin = 20 in 0..=60, step 4;

    // --- Null move pruning (NMP).
    nmp_base = 5 in 2..=7, step 1;
    nmp_depth_div = 3 in 2..=6, step 1;
    nmp_eval_div = 180 in 80..=400, step 20;
    nmp_eval_max = 3 in 1..=6, step 1;
    nmp_margin = 130 in 0..=400, step 20;
    nmp_margin_depth = 14 in 0..=50, step 3;
    nmp_verify_depth = 14 in 8..=24, step 1;

    // --- ProbCut.
    probcut_margin = 170 in 60..=350, step 12;
    probcut_improving = 45 in 0..=120, step 8;
    probcut_small_margin = 380 in 150..=700, step 25;
    probcut_depth = 4 in 3..=8, step 1;
    /// Plies by which the TT entry may be shallower: to veto ProbCut, and to prove small ProbCut.
    probcut_plies = 3 in 1..=6, step 1;
    probcut_small_plies = 4 in 1..=6, step 1;

    // --- Futility pruning of quiet moves and of captures.
    futility_depth = 11 in 4..=16, step 1;
    futility_base = 90 in 20..=250, step 12;
    futility_margin = 95 in 40..=200, step 8;
    futility_history = 200 in 60..=600, step 25;
    quiets_futile_depth = 2 in 1..=6, step 1;
    quiets_futile_margin = 150 in 0..=500, step 25;
    capture_futility_base = 200 in 60..=450, step 18;
    capture_futility_margin = 190 in 80..=400, step 16;
    capture_futility_depth = 7 in 4..=12, step 1;
    capture_futility_history = 16 in 6..=60, step 3;

    // --- Late move pruning (LMP).
    lmp_base = 3 in 1..=8, step 1;
    lmp_factor = 100 in 50..=200, step 8;

    // --- SEE pruning, in centipawns per ply (quiet moves: per ply squared).
    see_quiet = 23 in 5..=60, step 3;
    see_noisy = 105 in 40..=220, step 8;
    see_noisy_history = 36 in 10..=120, step 5;

    // --- History pruning.
    history_prune = 3600 in 1000..=9000, step 350;
    history_prune_depth = 5 in 2..=10, step 1;
    /// History that counts as one ply of depth in the futility pruning of quiet moves.
    history_ply = 8192 in 2000..=20000, step 800;

    // --- Singular extensions (SE).
    singular_depth = 6 in 4..=10, step 1;
    singular_plies = 3 in 1..=6, step 1;
    singular_margin = 56 in 20..=130, step 6;
    singular_pv_margin = 50 in 0..=150, step 8;
    double_margin = 6 in -40..=60, step 5;
    double_pv_margin = 190 in 0..=400, step 20;
    triple_margin = 85 in 20..=250, step 10;
    triple_pv_margin = 280 in 60..=600, step 25;
    triple_noisy_margin = 40 in 0..=150, step 8;

    // --- Late move reductions (LMR), in 1/1024 of a ply.
    lmr_quiet_base = 820 in 200..=1600, step 60;
    lmr_quiet_factor = 660 in 250..=1000, step 22;
    lmr_noisy_base = 180 in -300..=900, step 60;
    lmr_noisy_factor = 330 in 150..=650, step 22;
    lmr_improving = 520 in 0..=1500, step 60;
    lmr_cut_node = 1350 in 0..=3000, step 110;
    lmr_cut_no_tt = 900 in 0..=2500, step 100;
    lmr_tt_pv = 1050 in 0..=2500, step 90;
    lmr_tt_pv_score = 500 in 0..=1500, step 60;
    lmr_tt_pv_depth = 550 in 0..=1500, step 60;
    lmr_pv = 950 in 0..=2500, step 90;
    lmr_window = 600 in 0..=1500, step 60;
    lmr_tt_noisy = 800 in 0..=2000, step 80;
    lmr_cutoffs = 900 in 0..=2000, step 80;
    lmr_cutoffs_above = 3 in 1..=8, step 1;
    lmr_check = 700 in 0..=2000, step 80;
    lmr_correction = 9 in 0..=40, step 2;
    lmr_quiet_history = 9 in 3..=24, step 1;
    lmr_noisy_history = 14 in 3..=32, step 2;
    lmr_alpha_raised = 450 in 0..=1500, step 60;
    lmr_offset = 120 in -800..=800, step 60;
    /// Margins by which a reduced search must beat the best score to be searched deeper, or may exceed it to
    /// be searched shallower.
    deeper_base = 42 in 10..=120, step 6;
    deeper_depth = 2 in 0..=8, step 1;
    shallower_margin = 8 in 0..=30, step 2;
    hindsight_margin = 170 in 50..=400, step 16;
    hindsight_plies = 3 in 2..=6, step 1;

    // --- Quiescence search (qsearch).
    qs_futility = 190 in 60..=400, step 16;
    qs_see = -60 in -200..=50, step 12;

    // --- Histories: bonus and malus as a line through depth, with a ceiling.
    quiet_bonus = 155 in 50..=350, step 14;
    quiet_bonus_base = 60 in 0..=300, step 14;
    quiet_bonus_max = 1500 in 600..=3000, step 110;
    quiet_malus = 150 in 50..=350, step 14;
    quiet_malus_base = 40 in 0..=300, step 14;
    quiet_malus_max = 1300 in 600..=3000, step 110;
    noisy_bonus = 120 in 40..=350, step 14;
    noisy_bonus_base = 50 in 0..=300, step 14;
    noisy_bonus_max = 1300 in 600..=3000, step 110;
    noisy_malus = 130 in 40..=350, step 14;
    noisy_malus_base = 40 in 0..=300, step 14;
    noisy_malus_max = 1300 in 600..=3000, step 110;
    cont_bonus_percent = 95 in 40..=200, step 8;
    pawn_bonus_percent = 90 in 40..=200, step 8;
    prior_bonus = 110 in 0..=300, step 14;
    prior_bonus_base = 40 in 0..=300, step 14;
    prior_bonus_max = 1100 in 400..=2500, step 100;
    /// Additions in percent for a prior move that came late, or whose replies were searched deep.
    prior_late = 60 in 0..=200, step 12;
    prior_deep = 40 in 0..=200, step 12;
    post_lmr_bonus = 90 in 0..=250, step 12;
    post_lmr_bonus_max = 1500 in 600..=3000, step 110;
    /// Margin above beta, in centipawns, from which the best move's bonus counts one ply more.
    fail_high_margin = 60 in 20..=200, step 10;
    /// Bonus of the continuation histories of the third, fourth and sixth move before, in percent of that of
    /// the last two.
    cont_third = 30 in 0..=150, step 10;
    cont_fourth = 60 in 0..=150, step 10;
    cont_sixth = 40 in 0..=150, step 10;

    // --- Correction history: learning rate by depth, bound of a step, and weight of each table in 1/1024.
    corr_depth_div = 8 in 2..=20, step 1;
    corr_bonus_max = 256 in 64..=512, step 24;
    corr_pawn = 900 in 0..=2500, step 90;
    corr_minor = 700 in 0..=2500, step 90;
    corr_major = 500 in 0..=2500, step 90;
    corr_non_pawn = 850 in 0..=2500, step 90;
    corr_continuation = 750 in 0..=2500, step 90;

    // --- Move ordering.
    capture_victim = 14 in 4..=40, step 2;
    good_capture_see = 24 in 8..=80, step 4;
    threat_escape = 9000 in 0..=25000, step 1200;
    check_bonus = 8000 in 0..=25000, step 1200;
    underpromotion = -20000 in -40000..=0, step 2000;

    // --- Strategist.
    /// Minimum remaining depth of a query, on a principal variation and elsewhere.
    strategist_pv_depth = 4 in 1..=20, step 1;
    strategist_depth = 8 in 1..=20, step 1;
    /// Ordering score of a move with policy probability 1, and the probability in 1/1024 from which the top
    /// move is tried first.
    strategist_order = 16000 in 0..=60000, step 2000;
    strategist_first = 256 in 0..=1024, step 48;
    /// Reduction taken off a move with policy probability 1; reduction added below a probability in 1/1024.
    strategist_lmr_probability = 1500 in 0..=4000, step 150;
    strategist_lmr_unlikely = 400 in 0..=2000, step 100;
    strategist_lmr_unlikely_below = 8 in 0..=200, step 4;
    /// Scale of its centipawns in percent; bound of the change of an evaluation; evaluations beyond the range
    /// are not blended.
    strategist_scale = 100 in 20..=300, step 10;
    strategist_value_max = 80 in 0..=400, step 10;
    strategist_value_range = 800 in 100..=4000, step 100;
    /// Fraction of the usual time at an entropy of zero, and addition per nat of entropy, in percent.
    strategist_time_base = 75 in 30..=150, step 5;
    strategist_time_entropy = 15 in 0..=60, step 3;

    // --- Time management, in percent unless stated otherwise.
    /// Fraction of the remaining time that an ordinary move may use, in thousandths.
    tm_fraction = 25 in 10..=60, step 2;
    tm_increment = 75 in 30..=100, step 4;
    tm_hard = 500 in 200..=900, step 30;
    tm_node_base = 215 in 130..=300, step 8;
    tm_node_factor = 165 in 80..=260, step 8;
    tm_stability_base = 135 in 100..=190, step 5;
    tm_stability_step = 7 in 2..=15, step 1;
    tm_drop = 14 in 0..=40, step 2;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_lies_in_its_range_under_a_name_of_its_own() {
        for (index, param) in TABLE.iter().enumerate() {
            assert!((param.min..=param.max).contains(&param.default), "{}", param.name);
            assert!(param.step > 0, "{}", param.name);
            assert!(TABLE[..index].iter().all(|other| other.name != param.name), "{}", param.name);
        }
    }

    #[test]
    fn former_names_select_the_parameters_that_have_new_names() {
        for (index, (old, new)) in RENAMED.iter().enumerate() {
            assert!(TABLE.iter().any(|param| param.name == *new), "{new}");
            assert!(TABLE.iter().all(|param| param.name != *old), "{old}");
            assert!(RENAMED[..index].iter().all(|(other, _)| other != old), "{old}");
            assert_eq!((current_name(old), current_name(&old.to_ascii_uppercase())), (*new, *new));
            assert!(TABLE.iter().all(|param| param.matches(old) == (param.name == *new)), "{old}");
        }
        assert_eq!((current_name("rfp_margin"), current_name("no_such")), ("rfp_margin", "no_such"));
        let count = |pattern: &str| TABLE.iter().filter(|param| param.matches(pattern)).count();
        assert_eq!(
            [count("hopeless_*"), count("rfp_*"), count("rfp_margin"), count("no_such*")],
            [2, 6, 1, 0]
        );
        assert_eq!(count("counsel_*"), count("strategist_*")); // language: old name
        assert_eq!(count("*"), TABLE.len());
    }

    /// Scripts of earlier versions set switches as numbers.
    #[test]
    #[cfg(feature = "tune")]
    fn a_switch_is_off_after_its_option_is_set_to_zero() {
        struct Target(Values);
        impl Tuned for Target {
            fn values(&mut self) -> &mut Values {
                &mut self.0
            }
        }
        let mut target = Target(Values::default());
        let option = crate::uci_option::find(Target::OPTIONS, "use_nmp").unwrap();
        assert_eq!(option.to_string(), "option name use_nmp type spin default 1 min 0 max 1");
        let mut value_after = |text: &str| {
            option.set(&mut target, text).unwrap();
            target.0.make_current();
            (use_nmp(), use_rfp())
        };
        assert_eq!(["0", "1"].map(&mut value_after), [(false, true), (true, true)]);
        assert!(option.set(&mut target, "2").is_err() && option.set(&mut target, "false").is_err());
    }

    #[test]
    #[cfg(feature = "tune")]
    fn a_tuner_sets_values_within_their_range_for_one_thread() {
        let mut values = Values::default();
        assert!(!values.set("no_such_number", 1));
        assert!(!values.set("rfp_margin", 100_000));
        assert_eq!(values, Values::default());
        assert!(values.set("rfp_margin", 78));
        assert!(values.set("counsel_depth", 9) && values.set("strategist_depth", 8)); // language: old name
        values.make_current();
        assert_eq!((rfp_margin(), rfp_depth()), (78, 10));
        let elsewhere = std::thread::spawn(rfp_margin).join().unwrap();
        assert_eq!(elsewhere, 70, "another thread works for another search");
    }
}
