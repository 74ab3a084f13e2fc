//! Property tests: no text from engines or the command line makes a parser panic.

use proptest::prelude::*;
use tandem_arena::{DrawRule, EngineSpec, ResignRule, TimeLimit, UciInfo, UciOption};

proptest! {
    #[test]
    fn any_info_line_is_parsed(text in "(info |depth |score |cp |mate |pv |nodes |lowerbound |[-0-9]{1,30} |\\PC{0,9} ){0,20}") {
        let info = UciInfo::parse(&text);
        if let Some(score) = info.score {
            let round_trip = score.flipped().flipped();
            prop_assert_eq!(score, round_trip);
            prop_assert!(score.centipawns().abs() <= 100_000);
        }
    }

    #[test]
    fn any_option_line_is_parsed(text in "option (name |type |spin |combo |var |min |max |[-0-9]{1,30} |\\PC{0,9} ){0,20}") {
        if let Some(option) = UciOption::parse(&text) {
            let name = option.name.clone();
            let _ = UciOption::command(&[option], &name, "17");
        }
    }

    #[test]
    fn any_description_is_parsed(text in "(cmd=|name=|tc=|st=|option\\.|depth=|[,=\\\\+/0-9.]|\\PC){0,40}") {
        let _ = EngineSpec::parse(&text, "");
        let _ = ResignRule::parse(&text);
        let _ = DrawRule::parse(&text);
    }

    #[test]
    fn time_controls_survive_a_round_trip(text in "[0-9]{0,3}/?[0-9:.]{1,6}(\\+[0-9.]{1,5})?") {
        if let Ok(limit) = text.parse::<TimeLimit>() {
            prop_assert_eq!(limit.to_string().parse::<TimeLimit>().unwrap(), limit);
        }
    }
}
