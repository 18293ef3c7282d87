//! Results of benchmarks as a Markdown table or as data.

use crate::OpCase;
use crate::timing::{Budget, Measured};
use kernels::{Backend, Error};

/// The result of one case.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Line {
    /// Name of the case.
    pub case: String,
    /// Rows of the window (T).
    pub rows: usize,
    /// Times.
    #[serde(flatten)]
    pub measured: Measured,
    /// Bytes of a call by its median time.
    pub gb_per_s: f64,
    /// That relative to the bandwidth.
    pub bandwidth_share: f64,
    /// Best time relative to that of T = 1, where the same run measured it.
    pub times_one_row: Option<f64>,
}

/// Results of one run on one device.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Report {
    /// Name of the device.
    pub device: String,
    /// GB/s at which the same run read memory.
    pub read_gb_per_s: f64,
    /// One per case.
    pub lines: Vec<Line>,
}

impl Report {
    /// Measures a case and adds its line, or nothing if the device has no kernel for it.
    ///
    /// # Errors
    /// Any other error of the device.
    pub fn measure<B: Backend>(
        &mut self,
        backend: &mut B,
        case: &OpCase,
        budget: &Budget,
    ) -> Result<(), Error> {
        match case.bench(backend, budget) {
            Err(Error::UnsupportedFormat { .. }) => Ok(()),
            measured => {
                self.push(case, measured?);
                Ok(())
            }
        }
    }

    fn push(&mut self, case: &OpCase, measured: Measured) {
        let (name, rows) = (case.name(), case.rows());
        let one_row = name_at_one_row(&name, rows);
        let one = self.lines.iter().find(|line| line.case == one_row);
        let gb_per_s = measured.gb_per_s();
        self.lines.push(Line {
            times_one_row: one.map(|one| measured.best_us / one.measured.best_us),
            case: name,
            rows,
            gb_per_s,
            bandwidth_share: gb_per_s / self.read_gb_per_s,
            measured,
        });
    }

    /// The heading of the table that [`Line::markdown`] fills.
    pub fn markdown_heading(&self) -> String {
        heading(&self.device, self.read_gb_per_s)
    }

    /// The whole table.
    pub fn markdown(&self) -> String {
        let lines = self.lines.iter().map(|line| format!("{}\n", line.markdown()));
        self.markdown_heading() + &lines.collect::<String>()
    }
}

/// First lines of a table.
pub fn heading(device: &str, read_gb_per_s: f64) -> String {
    format!(
        "Device {device}; memory reads at {read_gb_per_s:.1} GB/s. GB/s: weights (or states) \
         once a call. xT1: best time relative to T = 1.\n\n\
         | case | T | us | best | GB/s | of bandwidth | Gop/s | xT1 |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n"
    )
}

impl Line {
    /// A row of the table.
    pub fn markdown(&self) -> String {
        let Self { case, rows, measured, gb_per_s, bandwidth_share, times_one_row } = self;
        let Measured { median_us, best_us, .. } = measured;
        let times = times_one_row.map_or_else(|| "-".to_owned(), |times| format!("{times:.2}"));
        let (share, gops) = (bandwidth_share * 100.0, measured.gops());
        format!(
            "| {case} | {rows} | {median_us:.1} | {best_us:.1} | {gb_per_s:.2} | {share:.0}% \
             | {gops:.1} | {times} |"
        )
    }
}

/// The name of the same case with one row.
fn name_at_one_row(name: &str, rows: usize) -> String {
    let rows = format!("T{rows}");
    name.split('/').map(|part| if part == rows { "T1" } else { part }).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cost, cases};

    #[test]
    fn a_line_compares_with_one_row_of_the_same_case() {
        let cases = cases::matching(&["gemv/Q8_0/640x2560/T".into()]);
        let mut report = Report { device: "toy".into(), read_gb_per_s: 10.0, lines: Vec::new() };
        for case in &cases {
            let (median_us, best_us) = (100.0 * case.rows() as f64, 90.0 * case.rows() as f64);
            let cost = Cost { bytes: 500_000, ops: 1 };
            report.push(case, Measured { median_us, best_us, calls: 3, cost });
        }
        let four = report.lines.iter().find(|l| l.case == "gemv/Q8_0/640x2560/T4/int8").unwrap();
        assert_eq!((four.times_one_row, four.gb_per_s), (Some(4.0), 1.25));
        assert_eq!(four.bandwidth_share, 0.125);
        assert!(report.markdown().contains(
            "| gemv/Q8_0/640x2560/T4/int8 | 4 | 400.0 | 360.0 | 1.25 | 12% | 0.0 | 4.00 |\n"
        ));
    }
}
