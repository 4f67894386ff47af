package compare

import (
	"bytes"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The size of a plot, and of the names of its curves beside it.
const plotWidth, plotHeight, legendWidth = 720, 360, 190

// SVG draws the plot with equidistant ticks on the horizontal axis and values on the
// vertical axis.
func (p *Plot) SVG() (string, error) {
	c, legend := plot.New(), plot.NewLegend()
	c.Title.Text, legend.Top, legend.Left, legend.Padding = p.Title+", "+p.Unit, true, true, 3
	var ticks plot.ConstantTicks
	for i, t := range p.Ticks {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: t.Name})
	}
	c.X.Tick.Marker, c.X.Max, c.Y.Min = ticks, float64(len(p.Ticks)-1), 0
	c.Add(plotter.NewGrid())
	solid := -1
	low := math.Inf(1)
	for _, curve := range p.Curves {
		var points plotter.XYs
		for _, q := range curve.Points {
			low = min(low, q.Value)
			points = append(points, plotter.XY{X: float64(slices.IndexFunc(p.Ticks, func(t Tick) bool { return t.X == q.X })), Y: q.Value})
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return "", err
		}
		if !curve.Dashed || solid < 0 {
			solid++
		} else {
			line.Dashes = plotutil.Dashes(1)
		}
		line.Color, marks.Color, marks.Shape = plotutil.Color(solid), plotutil.Color(solid), draw.CircleGlyph{}
		c.Add(line, marks)
		legend.Add(curve.Name, line, marks)
	}
	if p.Log && low > 0 && len(p.Curves) > 0 {
		c.Y.Min, c.Y.Scale, c.Y.Tick.Marker = math.Pow(10, math.Floor(math.Log10(low))), plot.LogScale{}, plot.LogTicks{Prec: -1}
		c.Y.Max = max(c.Y.Max, 10*c.Y.Min)
	}
	canvas := vgsvg.New(vg.Points(plotWidth), vg.Points(plotHeight))
	all := draw.New(canvas)
	c.Draw(draw.Crop(all, 0, -vg.Points(legendWidth), 0, 0))
	legend.Draw(draw.Crop(all, vg.Points(plotWidth-legendWidth+10), 0, 0, -vg.Points(20)))
	var b bytes.Buffer
	_, err := canvas.WriteTo(&b)
	_, image, _ := bytes.Cut(b.Bytes(), []byte("<svg"))
	return "<svg" + string(image), err
}
