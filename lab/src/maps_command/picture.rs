//! The pictures of attention maps: overview sheet, board of boards, and large board.

use super::attention::{HeadMap, Quantity, SquareMap, TokenKind};
use super::colours::Scale;
use crate::svg::{self, number};
use crate::svg_board::{coordinates, definitions, grid_position};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use tandem_chess::{Board, Color, Square, fen};
use tandem_util::markup::escape;

const MARGIN: f64 = 28.0;
/// Size of the board that shows the position, beside the title.
const SMALL_BOARD: f64 = 128.0;
const HEADER: f64 = MARGIN + SMALL_BOARD + 34.0;
/// Space between the boards of a sheet.
const GAP: f64 = 16.0;
/// Minimum width of a picture, into which a title of usual length fits.
const LEAST_WIDTH: f64 = 720.0;

/// The properties that all pictures of a position share.
pub(super) struct Subject<'a> {
    pub(super) network: &'a str,
    pub(super) board: &'a Board,
    /// The origin of the pair logits: "Smolgen" or "The learned bias".
    pub(super) pairs: &'static str,
    pub(super) show: Quantity,
    /// The query that is drawn; `None` for all.
    pub(super) from: Option<TokenKind>,
    /// The move that the network evaluates, if it reads one.
    pub(super) mv: Option<&'a str>,
    /// True if the network reads more than the squares.
    pub(super) reads_text: bool,
}

/// One board on a picture.
struct Cell<'a> {
    caption: String,
    field: Option<&'a SquareMap>,
    from: Option<Square>,
}

impl Subject<'_> {
    /// A sheet with a board for each head: the row of one query, or the mean over all squares.
    pub(super) fn sheet(&self, heads: &BTreeMap<(usize, usize), &HeadMap>) -> String {
        let fields: Vec<Option<SquareMap>> = heads
            .values()
            .map(|map| match self.from {
                Some(from) => map.from(from).cloned(),
                None => Some(map.mean()),
            })
            .collect();
        let cells = heads.keys().zip(&fields).map(|((layer, head), field)| Cell {
            caption: format!("layer {layer}, head {head}"),
            field: field.as_ref(),
            from: self.outlined(),
        });
        let cells: Vec<Cell<'_>> = cells.collect();
        let query = self.from.map_or_else(|| "all squares on average".into(), |from| self.name_of(from));
        let mut description = format!("Each board is a head: {}, from {query}.", self.quantity_name());
        if self.from != Some(TokenKind::Move) && heads.values().any(|map| !map.has_squares()) {
            let _ = write!(
                description,
                "\nIn the last layer, only {} attends to the squares.",
                self.last_query()
            );
        }

        let columns = columns(heads.keys().copied());
        // As large as the page allows, and not smaller than pieces can be recognised.
        let size = ((LEAST_WIDTH - 2.0 * MARGIN + GAP) / columns as f64 - GAP).clamp(96.0, 176.0);
        // Space for a caption above each board, and for the sum of the other tokens below.
        let (across, down) = (size + GAP, size + 34.0);
        let width = (2.0 * MARGIN + across * columns as f64 - GAP).max(LEAST_WIDTH);
        let height = HEADER + down * cells.len().div_ceil(columns) as f64 + MARGIN;
        let scale = Scale::of(self.show, numbers(&cells));
        let mut svg = self.header(width, height, scale, &description);
        for (index, cell) in cells.iter().enumerate() {
            let left = MARGIN + across * (index % columns) as f64;
            let top = HEADER + down * (index / columns) as f64;
            let _ = write!(
                svg,
                "<text x=\"{}\" y=\"{}\" font-size=\"10\" fill=\"#444\">{}</text>",
                number(left),
                number(top - 5.0),
                cell.caption
            );
            self.draw(&mut svg, cell, (left, top, size), scale);
        }
        svg + "</svg>\n"
    }

    /// One head: a small board for each square, at the position of that square, with its row of attention.
    pub(super) fn board_of_boards(&self, (layer, head): (usize, usize), map: &HeadMap) -> String {
        let description = format!(
            "Layer {layer}, head {head}. Each small board shows {}\nfrom the square that is outlined on it.",
            self.quantity_name()
        );
        let cells = map.rows.iter().filter_map(|(from, field)| match from {
            TokenKind::Square(square) => {
                Some(Cell { caption: square.to_string(), field: Some(field), from: Some(*square) })
            }
            _ => None,
        });
        let cells: Vec<Cell<'_>> = cells.collect();
        let (size, step) = (80.0, if self.reads_text { 98.0 } else { 88.0 });
        let scale = Scale::of(self.show, numbers(&cells));
        let width = (2.0 * MARGIN + 8.0 * step).max(LEAST_WIDTH);
        let left = (width - 8.0 * step) / 2.0;
        let mut svg = self.header(width, HEADER + 8.0 * step + MARGIN, scale, &description);
        for cell in &cells {
            let (across, down) = cell.from.map_or((0, 0), grid_position);
            let at = (left + step * across as f64, HEADER + step * down as f64, size);
            self.draw(&mut svg, cell, at, scale);
        }
        svg += &coordinates(left - 4.0, HEADER - 4.0, 8.0 * step);
        svg + "</svg>\n"
    }

    /// One head, for one query or on average, large enough to print the values.
    pub(super) fn large_board(&self, (layer, head): (usize, usize), map: &HeadMap) -> String {
        let mean = map.mean();
        let (field, query) = match self.from {
            Some(place) => (map.from(place), self.name_of(place)),
            None if map.has_squares() => (Some(&mean), "all squares on average".into()),
            None => (Some(&mean), self.last_query()),
        };
        let caption = format!("Layer {layer}, head {head}");
        let description = match field {
            Some(_) => format!("{caption}: {}, from {query}.", self.quantity_name()),
            None => format!("{caption}: there is no attention from {query} in this layer."),
        };
        let cell = Cell { caption, field, from: self.outlined() };
        let scale = Scale::of(self.show, numbers(std::slice::from_ref(&cell)));
        let (size, unit) = (576.0, 72.0);
        let left = (LEAST_WIDTH - size) / 2.0;
        let mut svg = self.header(LEAST_WIDTH, HEADER + size + MARGIN + 16.0, scale, &description);
        self.draw(&mut svg, &cell, (left, HEADER, size), scale);
        for (square, &value) in Square::ALL.into_iter().zip(field.iter().flat_map(|field| &field.squares)) {
            let step = scale.step(value);
            // Values that are close to zero are not printed.
            if step.abs() < 4 {
                continue;
            }
            let (across, down) = grid_position(square);
            let ink = if Scale::is_dark(step) { "#fff" } else { "#333" };
            let _ = write!(
                svg,
                "<text x=\"{}\" y=\"{}\" font-size=\"9\" fill=\"{ink}\" text-anchor=\"middle\">{}</text>",
                number(left + unit * (across as f64 + 0.5)),
                number(HEADER + unit * (down as f64 + 1.0) - 2.5),
                scale.format(value)
            );
        }
        svg += &coordinates(left, HEADER, size);
        svg + "</svg>\n"
    }

    /// The quantity that the colours stand for.
    fn quantity_name(&self) -> &'static str {
        match self.show {
            Quantity::Attention => "the attention weight of each square",
            Quantity::Pairs => "the logit added for each square",
        }
    }

    /// The query of the last layer of a network that reads text: the move, or the end of the text.
    fn last_query(&self) -> String {
        self.mv.map_or_else(|| "the end of the text".into(), |mv| format!("the move {mv}"))
    }

    fn name_of(&self, place: TokenKind) -> String {
        match place {
            TokenKind::Square(square) => format!("{square} (outlined)"),
            TokenKind::Move | TokenKind::Text => self.last_query(),
        }
    }

    /// The query square, if the query is a square; it is outlined.
    fn outlined(&self) -> Option<Square> {
        match self.from {
            Some(TokenKind::Square(square)) => Some(square),
            _ => None,
        }
    }

    /// The top of a picture: title, description, legend and the position itself.
    fn header(&self, width: f64, height: f64, scale: Scale, description: &str) -> String {
        let quantity = match self.show {
            Quantity::Attention => "Attention",
            Quantity::Pairs => self.pairs,
        };
        let title = format!("{quantity} of {}", self.network);
        let mut svg = svg::begin(width, height, 12, &title);
        svg += &definitions(self.board);
        let _ = writeln!(
            svg,
            "<g transform=\"translate({MARGIN} {MARGIN}) scale({})\"><use href=\"#board\"/><use href=\"#pieces\"/></g>",
            number(SMALL_BOARD / 8.0)
        );
        svg += &coordinates(MARGIN, MARGIN, SMALL_BOARD);
        let side = if self.board.side_to_move() == Color::White { "White" } else { "Black" };
        let mut lines = vec![format!("{side} to move · {}", fen::format(self.board))];
        lines.extend(description.lines().map(str::to_owned));
        if self.show == Quantity::Pairs {
            lines.push("Logits minus their mean, because a constant for all squares has no effect.".into());
        }
        if self.reads_text {
            let read = self.mv.map_or_else(String::new, |mv| format!("The network reads the move {mv}. "));
            lines.push(format!("{read}Below each board: the sum over the other tokens."));
        }
        let left = MARGIN + SMALL_BOARD + 20.0;
        let _ = write!(
            svg,
            "<text x=\"{left}\" y=\"{}\" font-size=\"18\" font-weight=\"600\" fill=\"#222\">{}</text>",
            MARGIN + 16.0,
            escape(&title)
        );
        for (index, line) in lines.iter().enumerate() {
            let down = MARGIN + 36.0 + 15.0 * index as f64;
            let _ = write!(
                svg,
                "<text x=\"{left}\" y=\"{down}\" font-size=\"11\" fill=\"#555\">{}</text>",
                escape(line)
            );
        }
        svg += &scale.legend(left, MARGIN + SMALL_BOARD - 22.0, 260.0);
        svg
    }

    /// Draws a board with its colours into a square of `size` at `left` and `top`.
    fn draw(&self, svg: &mut String, cell: &Cell<'_>, (left, top, size): (f64, f64, f64), scale: Scale) {
        let unit = size / 8.0;
        let _ = write!(
            svg,
            "<g transform=\"translate({} {}) scale({})\">{}<use href=\"#board\"/>",
            number(left),
            number(top),
            number(unit),
            self.title(cell, scale)
        );
        if let Some(field) = cell.field {
            // All squares of one colour form one path.
            let mut paths: BTreeMap<i32, String> = BTreeMap::new();
            for (square, &value) in Square::ALL.into_iter().zip(&field.squares) {
                let (across, down) = grid_position(square);
                let _ = write!(paths.entry(scale.step(value)).or_default(), "M{across} {down}h1v1h-1z");
            }
            for (step, path) in paths {
                let _ =
                    write!(svg, "<path d=\"{path}\" fill=\"{}\" fill-opacity=\".92\"/>", Scale::colour(step));
            }
        }
        if let Some(square) = cell.from {
            let (across, down) = grid_position(square);
            let _ = write!(
                svg,
                "<rect x=\"{across}\" y=\"{down}\" width=\"1\" height=\"1\" fill=\"none\" stroke=\"#0a7d5a\" stroke-width=\"{}\"/>",
                number((2.0 / unit).clamp(0.06, 0.16))
            );
        }
        *svg += "<use href=\"#pieces\"/></g>\n";
        if let (Some(field), true) = (cell.field, self.reads_text) {
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" font-size=\"9\" fill=\"#777\" text-anchor=\"end\">other tokens {}</text>",
                number(left + size),
                number(top + size + 11.0),
                scale.format(field.other_tokens)
            );
        }
    }

    /// The tooltip of a board: the six squares with the largest absolute values.
    fn title(&self, cell: &Cell<'_>, scale: Scale) -> String {
        let Some(field) = cell.field else { return String::new() };
        let mut largest: Vec<(Square, f32)> = Square::ALL.into_iter().zip(field.squares).collect();
        largest.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        let squares: Vec<String> = largest[..6]
            .iter()
            .map(|&(square, number)| format!("{square} {}", scale.format(number)))
            .collect();
        format!("<title>{}: {}</title>", cell.caption, squares.join(", "))
    }
}

/// The number of boards side by side: the heads of a layer, or up to four if there is only one layer or one
/// head.
fn columns(heads: impl Iterator<Item = (usize, usize)>) -> usize {
    let (layers, of_layer): (BTreeSet<usize>, BTreeSet<usize>) = heads.unzip();
    match (layers.len(), of_layer.len()) {
        (1, count) | (count, 1) => count.min(4),
        (_, count) => count.clamp(1, 16),
    }
}

/// The values of all boards.
fn numbers(cells: &[Cell<'_>]) -> impl Iterator<Item = f32> {
    cells.iter().filter_map(|cell| cell.field).flat_map(|field| field.squares)
}
