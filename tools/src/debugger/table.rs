//! The process table of a job in the words of PRRTE, a line for each rank.
use instanton::data::{ProcInfo, Text};

/// The lines of a table.
pub fn lines(table: impl Iterator<Item = ProcInfo>) -> String {
    let text = |text: &Option<Text>| text.as_ref().map(Text::to_string_lossy).unwrap_or_default().into_owned();
    let line = |info: ProcInfo| {
        let (rank, host, program) = (info.proc.rank, text(&info.hostname), text(&info.executable));
        format!("(rank, host, exe, pid) = ({rank}, {host}, {program}, {})\n", info.pid)
    };
    table.map(line).collect()
}
