//! Draws a recorded run as SVG: the cumulative numbers of jobs put and of calls received.

use std::fmt::Write;

use super::{Run, STARTS};

/// A language of the guide, with the words of its chart.
pub(super) struct Language {
    pub(super) path: &'static str,
    title: &'static str,
    time: &'static str,
    put: &'static str,
    called: &'static str,
}

pub(super) const LANGUAGES: [&Language; 2] = [
    &Language {
        path: "docs/guides/partner-api.svg",
        title: "Two bursts of jobs, and the calls at a rate of 100 per second",
        time: "seconds",
        put: "jobs put",
        called: "calls",
    },
    &Language {
        path: "docs/guides/partner-api.zh-CN.svg",
        title: "两次突发的任务，以及每秒 100 次的调用",
        time: "秒",
        put: "放入的任务",
        called: "调用",
    },
];

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
/// The corners of the area between the axes.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 690.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 310.0;

/// Maps times and sums to coordinates.
struct Scale {
    seconds: f64,
    jobs: f64,
}

impl Scale {
    fn of(run: &Run) -> Self {
        let last = run.calls.iter().chain(&run.puts).max().copied().unwrap_or(0);
        let seconds = (last / 1_000 + 1) as f64;
        let jobs = run.puts.len().max(run.calls.len()).next_multiple_of(STARTS) as f64;
        Self { seconds, jobs }
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * seconds / self.seconds
    }

    fn y(&self, jobs: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * jobs / self.jobs
    }

    /// Returns the points of a line that rises by one at each of these times.
    fn steps(&self, times: &[u64]) -> String {
        let mut points = format!("{:.1},{:.1}", self.x(0.0), self.y(0.0));
        let mut sum = 0.0;
        for same in times.chunk_by(|one, other| one == other) {
            let x = self.x(same[0] as f64 / 1_000.0);
            let _ = write!(points, " {x:.1},{:.1}", self.y(sum));
            sum += same.len() as f64;
            let _ = write!(points, " {x:.1},{:.1}", self.y(sum));
        }
        let _ = write!(points, " {:.1},{:.1}", self.x(self.seconds), self.y(sum));
        points
    }
}

pub(super) fn draw(run: &Run, language: &Language) -> String {
    let scale = Scale::of(run);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"13\" role=\"img\">\n\
         <title>{title}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"16\" fill=\"#222\">{title}</text>\n",
        title = language.title,
    );
    draw_axes(&mut svg, &scale, language);
    for (times, colour, name, y) in [
        (&run.puts, "#b45309", language.put, TOP + 20.0),
        (&run.calls, "#2563eb", language.called, TOP + 40.0),
    ] {
        let points = scale.steps(times);
        let _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n\
             <text x=\"{:.1}\" y=\"{y:.1}\" fill=\"{colour}\">{name}</text>",
            LEFT + 12.0,
        );
    }
    svg + "</svg>\n"
}

fn draw_axes(svg: &mut String, scale: &Scale, language: &Language) {
    let mut sum = 0.0;
    while sum <= scale.jobs {
        let y = scale.y(sum);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{RIGHT}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{sum}</text>",
            LEFT - 8.0,
            y + 4.0,
        );
        sum += STARTS as f64;
    }
    let mut second = 0.0;
    while second <= scale.seconds {
        let x = scale.x(second);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{BOTTOM}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#555\"/>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{second}</text>",
            BOTTOM + 5.0,
            BOTTOM + 20.0,
        );
        second += 1.0;
    }
    let _ = writeln!(
        svg,
        "<text x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{}</text>",
        BOTTOM + 40.0,
        language.time,
    );
}
