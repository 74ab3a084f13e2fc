//! Text from engines and from the command line never upsets its readers.

use proptest::prelude::*;
use tandem_arena::{DrawRule, EngineSpec, Info, ResignRule, TimeLimit, UciOption};

proptest! {
    #[test]
    fn any_info_line_is_read(text in "(info |depth |score |cp |mate |pv |nodes |lowerbound |[-0-9]{1,30} |\\PC{0,9} ){0,20}") {
        let info = Info::parse(&text);
        if let Some(score) = info.score {
            let turned = score.turned().turned();
            prop_assert_eq!(score, turned);
            prop_assert!(score.centipawns().abs() <= 100_000);
        }
    }

    #[test]
    fn any_option_line_is_read(text in "option (name |type |spin |combo |var |min |max |[-0-9]{1,30} |\\PC{0,9} ){0,20}") {
        if let Some(option) = UciOption::parse(&text) {
            let name = option.name.clone();
            let _ = UciOption::command(&[option], &name, "17");
        }
    }

    #[test]
    fn any_description_is_read(text in "(cmd=|name=|tc=|st=|option\\.|depth=|[,=\\\\+/0-9.]|\\PC){0,40}") {
        let _ = EngineSpec::parse(&text, "");
        let _ = ResignRule::parse(&text);
        let _ = DrawRule::parse(&text);
    }

    #[test]
    fn a_time_control_that_is_read_is_written_alike(text in "[0-9]{0,3}/?[0-9:.]{1,6}(\\+[0-9.]{1,5})?") {
        if let Ok(limit) = text.parse::<TimeLimit>() {
            prop_assert_eq!(limit.to_string().parse::<TimeLimit>().unwrap(), limit);
        }
    }
}
